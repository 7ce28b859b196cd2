package intake_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
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
	if held := b.store.keys["k"]; held.Pending || held.ID != first.Notification.ID {
		t.Errorf("the key is kept as %+v, want it committed for %s", held, first.Notification.ID)
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

func TestAKeyThatIsBeingUsedIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.accept(t, keyed("k", "hi"))
	b.store.keys["k"].Pending = true
	for i, busy := range b.accept(t, keyed("k", "hi"), keyed("k", "hi")) { // and so is a repeat in its batch
		if !errors.Is(busy.Err, intake.ErrInProgress) || busy.Notification != nil || busy.Known {
			t.Errorf("request %d gives %+v, want it refused as in progress", i, busy)
		}
	}
	if other := b.accept(t, keyed("k", "ho"))[0]; !errors.Is(other.Err, intake.ErrKeyReused) {
		t.Errorf("with another body it gives %+v, want it refused as reused", other)
	}
}

// The process that was accepting has died. A repeat takes the key over, under the id that was reserved. So there is one
// notification, whether the first was stored or not.
func TestARepeatTakesOverAnAbandonedKey(t *testing.T) {
	t.Parallel()
	for failed, stored := range map[string]bool{"accept": false, "commit": true} {
		t.Run(failed, func(t *testing.T) {
			t.Parallel()
			b := newBench()
			b.store.fail = failed
			if _, err := b.Accept(t.Context(), []intake.Request{keyed("k", "hi")}); !errors.Is(err, errAway) {
				t.Fatal(err)
			}
			b.store.fail = ""
			held := b.store.keys["k"]
			held.Over = true
			r := b.accept(t, keyed("k", "hi"))[0]
			if r.Err != nil || r.Known != stored || held.Pending || r.Notification.ID != held.ID {
				t.Errorf("the repeat gives %+v, the key is %+v, stored is %+v", r, held, b.store.known)
			}
			if len(b.store.known) != 1 || len(b.store.fresh) != 1 || len(b.accepted) != 1 {
				t.Errorf("%d stored, %d of them new, %d reported; want one each",
					len(b.store.known), len(b.store.fresh), len(b.accepted))
			}
		})
	}
}

// A key may outlive the notification that has it. Then the result is made from the request itself, and from what the
// key keeps: when it was accepted, or nothing in a store that does not keep it.
func TestTheKeyOfAForgottenNotificationReturnsTheRequest(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]intake.Request{
		"it could be accepted": keyed("k", "hi"), "no more": brief(keyed("k", "hi")),
	} {
		for _, kept := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", kept: ", kept), func(t *testing.T) {
				t.Parallel()
				b := newBench()
				first := b.accept(t, r)[0].Notification
				clear(b.store.known)
				want := *first
				if held := b.store.keys["k"]; !kept {
					held.At, want.CreatedAt = time.Time{}, time.Time{}
				}
				b.clock = now.Add(time.Minute)
				again := b.accept(t, r)[0]
				if diff := cmp.Diff(intake.Result{Notification: &want, Known: true}, again); diff != "" {
					t.Errorf("the repeat differs (-want +got):\n%s", diff)
				}
				if len(b.store.known) != 0 {
					t.Error("it was stored once more")
				}
			})
		}
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

// A batch of many keys over a slow link would take longer than its caller waits, if each were asked for alone; so would
// its repeat, if each notification were.
func TestKeysOfABatchAreAskedForTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.store.takes = 10 * time.Millisecond
		batch := make([]intake.Request, 10_000)
		for i := range batch {
			batch[i] = keyed(strconv.Itoa(i), "hi")
		}
		var first []intake.Result
		for _, what := range []string{"a batch", "its repeat"} {
			began := time.Now()
			results := b.accept(t, batch...)
			if took := time.Since(began); took > 500*time.Millisecond {
				t.Errorf("%s of %d keys takes %s, where an answer takes 10 ms", what, len(batch), took)
			}
			if first == nil {
				first = results
			}
		}
		b.store.keys["7"].Pending = true
		batch[8].Notification.Title = "ho"
		for i, again := range b.accept(t, batch...) {
			switch {
			case i == 7 && errors.Is(again.Err, intake.ErrInProgress):
			case i == 8 && errors.Is(again.Err, intake.ErrKeyReused):
			case !again.Known || again.Notification.ID != first[i].Notification.ID:
				t.Errorf("the repeat of request %d gives %+v", i, again)
			}
		}
	})
}

// A store that is away is asked for a few keys of a batch, and not for all: each may take until its time-out.
func TestABatchEndsWithTheFirstKeyThatFails(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"reserve", "commit"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench()
			b.store.takes, b.store.fail = 10*time.Millisecond, method
			batch := make([]intake.Request, 1600)
			for i := range batch {
				batch[i] = keyed(strconv.Itoa(i), "hi")
			}
			if _, err := b.Accept(t.Context(), batch); !errors.Is(err, errAway) {
				t.Errorf("it ends with %v, want %v", err, errAway)
			}
			if asked := b.store.asked.Load(); asked > 32 {
				t.Errorf("%s is called %d times", method, asked)
			}
		})
	}
}

// The caller has gone before all keys were reserved: nothing is stored, with a key or without.
func TestNothingIsStoredWhoseKeyWasNotAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.store.takes = 60 * time.Millisecond
		batch := make([]intake.Request, 1600)
		for i := range batch {
			batch[i] = keyed(strconv.Itoa(i), "hi")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := b.Accept(ctx, batch); !errors.Is(err, context.DeadlineExceeded) || len(b.store.known) > 0 {
			t.Errorf("it ends with %v, and %d are stored", err, len(b.store.known))
		}
		<-time.After(b.store.takes) // the call that was given up ends
	})
}

// A key is kept for a day longer than its notification may live: until its last retry, or until it expires.
func TestAKeyOutlivesItsNotificationByADay(t *testing.T) {
	t.Parallel()
	const day, retries = 24 * time.Hour, 200 * time.Hour
	for name, c := range map[string]struct {
		category          string
		channel           notification.Channel
		sendIn, expiresIn time.Duration
		want              time.Duration
	}{
		"at once":                 {category: "default", channel: "log", want: time.Hour + day},
		"may be deferred long":    {category: "chat", channel: "log", want: 48*time.Hour + day},
		"may be retried long":     {category: "default", channel: "webhook", want: time.Hour + retries + day},
		"over the default":        {category: "chat", want: 48*time.Hour + retries + day},
		"to be sent later":        {category: "default", channel: "log", sendIn: 10 * day, want: 10*day + time.Hour + day},
		"was to be sent earlier":  {category: "default", channel: "log", sendIn: -2 * time.Hour, want: time.Hour + day},
		"expires early":           {category: "default", expiresIn: 2 * time.Hour, want: 2*time.Hour + day},
		"sent later, and expires": {category: "default", sendIn: 10 * day, expiresIn: 11 * day, want: 11*day + day},
		"expires late":            {category: "default", channel: "log", expiresIn: 2 * day, want: time.Hour + day},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench()
			r := keyed("k", "hi")
			r.Category, r.Channel = c.category, c.channel
			if c.sendIn != 0 {
				r.SendAt = now.Add(c.sendIn)
			}
			if c.expiresIn != 0 {
				r.ExpiresAt = now.Add(c.expiresIn)
			}
			b.accept(t, r)
			if got := b.store.keys["k"].Life; got != c.want {
				t.Errorf("the key is kept for %s, want %s", got, c.want)
			}
		})
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
