package intake_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
)

func TestARepeatedKeyReturnsTheFirstNotification(t *testing.T) {
	t.Parallel()
	b := newBench()
	first := b.accept(t, keyed("k", "hi"))[0]
	if first.Known || first.Err != nil {
		t.Fatalf("the first gives %+v", first)
	}
	if held := b.store.holder("k"); held == nil || held.ID != first.Notification.ID {
		t.Errorf("the key belongs to %+v, want it to be that of %s", held, first.Notification.ID)
	}
	again := b.accept(t, keyed("k", "hi"))[0]
	if diff := cmp.Diff(intake.Result{Notification: first.Notification, Known: true}, again); diff != "" {
		t.Errorf("the repeat differs (-want +got):\n%s", diff)
	}
	other := b.accept(t, keyed("k", "ho"))[0]
	if !errors.Is(other.Err, intake.ErrKeyReused) || other.Notification != nil || other.Known {
		t.Errorf("with another body it gives %+v, want it refused as reused", other)
	}
	if len(b.store.known) != 1 || len(b.store.fresh) != 1 || len(b.accepted) != 1 {
		t.Errorf("%d stored, %d of them new, %d reported; want one each",
			len(b.store.known), len(b.store.fresh), len(b.accepted))
	}
}

func TestAKeyTwiceInABatchIsOneNotification(t *testing.T) {
	t.Parallel()
	b := newBench()
	bad := keyed("k", "hi")
	bad.UserID = ""
	results := b.accept(t, bad, keyed("k", "hi"), keyed("other", "hi"), keyed("k", "hi"), keyed("k", "ho"))
	if results[0].Err == nil || results[1].Err != nil || results[2].Err != nil {
		t.Fatalf("the first three give %v, %v, %v; want only the first refused",
			results[0].Err, results[1].Err, results[2].Err)
	}
	if results[1].Known || results[2].Known || results[1].Notification.ID == results[2].Notification.ID {
		t.Errorf("two keys give %+v and %+v, want two new notifications", results[1], results[2])
	}
	if repeat := results[3]; !repeat.Known || repeat.Notification.ID != results[1].Notification.ID ||
		repeat.Notification.CreatedAt != now {
		t.Errorf("the repeat gives %+v, want the one before", results[3])
	}
	if !errors.Is(results[4].Err, intake.ErrKeyReused) || results[4].Notification != nil {
		t.Errorf("the other body gives %+v, want it refused as reused", results[4])
	}
	if len(b.store.known) != 2 || len(b.store.fresh) != 2 || len(b.accepted) != 2 {
		t.Errorf("%d stored, %d of them new, %d reported; want 2 each",
			len(b.store.known), len(b.store.fresh), len(b.accepted))
	}
}

// Two requests under one key are the same exactly when their JSON is the same. Every field counts; how the data is
// written does not.
func TestRequestsAreTheSameWhenTheirJSONIs(t *testing.T) {
	t.Parallel()
	at := rapid.SampledFrom([]time.Time{{}, now.Add(time.Hour), now.Add(2 * time.Hour)})
	text := rapid.SampledFrom([]string{"", "a", "b"})
	requests := rapid.Custom(func(t *rapid.T) intake.Request {
		n := notification.Notification{
			ID: text.Draw(t, "id"), UserID: rapid.SampledFrom([]string{"u", "v"}).Draw(t, "user"),
			Category: rapid.SampledFrom([]string{"", "chat"}).Draw(t, "category"),
			Channel:  rapid.SampledFrom([]notification.Channel{"", "log"}).Draw(t, "channel"),
			To:       text.Draw(t, "to"), Title: text.Draw(t, "title"), Body: text.Draw(t, "body"),
			Data: rapid.SampledFrom([]json.RawMessage{
				nil, json.RawMessage(`{"a":1}`), json.RawMessage(` { "a" : 1 } `), json.RawMessage(`{"a":2}`),
			}).Draw(t, "data"),
			Priority: rapid.SampledFrom([]notification.Priority{0, 1}).Draw(t, "priority"),
			SendAt:   at.Draw(t, "send_at"), CollapseKey: text.Draw(t, "collapse_key"),
		}
		if at := at.Draw(t, "expires_at"); at.After(n.SendAt) {
			n.ExpiresAt = at
		}
		return intake.Request{Notification: n, IdempotencyKey: "k"}
	})
	rapid.Check(t, func(r *rapid.T) {
		first := requests.Draw(r, "first")
		second := first
		if rapid.Bool().Draw(r, "another") {
			second = requests.Draw(r, "second")
		}
		second.CreatedAt = now // is not the producer's to say
		b := newBench()
		b.accept(t, first)
		again := b.accept(t, second)[0]

		a, errA := json.Marshal(first.Notification)
		second.CreatedAt = first.CreatedAt
		z, errZ := json.Marshal(second.Notification)
		if errA != nil || errZ != nil {
			r.Fatal(errA, errZ)
		}
		if same := string(a) == string(z); again.Known != same || errors.Is(again.Err, intake.ErrKeyReused) == same {
			r.Errorf("same: %t, yet it gives %+v\nfirst  %s\nsecond %s", same, again, a, z)
		}
	})
}
