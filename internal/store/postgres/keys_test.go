package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/relay"
	"github.com/pacer-notify/pacer/test/redistest"
)

// keyed is a notification of a request with an idempotency key, under an id that was made for it.
func keyed(key, fingerprint string) *notification.Notification {
	return &notification.Notification{
		ID: uuid.Must(uuid.NewV7()).String(), IDMade: true, UserID: "ada", Category: "chat",
		Channel: notification.ChannelLog, Priority: notification.PriorityNormal,
		IdempotencyKey: key, Fingerprint: fingerprint,
	}
}

// A key stays with its notification for a day, and until it ends: a pause or a hold may keep it open for longer. The
// purge leaves it for as long. Afterwards the key is free, and the purge takes what had it.
func TestAKeyIsFreeADayLaterAndAfterTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	w.relay = relay.New(w.store.Stores, relay.Config{
		Retention: time.Hour, Windows: func(string) time.Duration { return time.Hour },
	})
	accept := func(n *notification.Notification) intake.Accepted {
		t.Helper()
		accepted, err := w.store.Accept(t.Context(), []*notification.Notification{n})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.relay.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		return accepted[0]
	}
	first := keyed("key", "body")
	accept(first)
	const before = "UPDATE pacer.notifications SET accepted_at = now() - interval '%s', " +
		"ended_at = ended_at - interval '%s'"
	for _, step := range []struct {
		name, ago string
		end       bool
	}{
		{name: "a day later, still open", ago: "25 h"},
		{name: "ended, within a day", ago: "23 h", end: true},
	} {
		if step.end {
			w.deliver(t, "ada")
		}
		w.exec(t, fmt.Sprintf(before, step.ago, step.ago))
		for _, fingerprint := range []string{"body", "other"} {
			if a := accept(keyed("key", fingerprint)); !a.Known || a.First == nil || a.First.ID != first.ID {
				t.Errorf("%s, %s: %+v, want the first", step.name, fingerprint, a)
			}
		}
	}
	w.exec(t, fmt.Sprintf(before, "25 h", "2 h"))
	second := keyed("key", "other")
	if a := accept(second); a.Known || a.Err != nil {
		t.Errorf("ended, after a day: %+v", a)
	}
	if holder, err := w.store.Holder(t.Context(), "key"); err != nil || holder == nil || holder.ID != second.ID {
		t.Errorf("the key belongs to %+v, %v", holder, err)
	}
	if v, err := w.store.View(t.Context(), first.ID); err == nil {
		t.Errorf("the purge left %+v", v)
	}
}

// A batch of keys that is repeated whole costs one statement for a thousand, and writes nothing.
func TestARepeatedBatchOfKeysIsOneStatementForAThousand(t *testing.T) {
	t.Parallel()
	w, statements := countedWorld(t, "pacer.notifications")
	const size = 10_000
	batch := func() []*notification.Notification {
		all := make([]*notification.Notification, size)
		for i := range all {
			all[i] = keyed(fmt.Sprint("key", i), "body")
		}
		return all
	}
	if _, err := w.store.Accept(t.Context(), batch()); err != nil {
		t.Fatal(err)
	}
	before := statements.n.Load()
	accepted, err := w.store.Accept(t.Context(), batch())
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range accepted {
		if !a.Known || a.Err != nil {
			t.Fatalf("key %d again: %+v", i, a)
		}
	}
	if ran := statements.n.Load() - before; ran != size/1000 {
		t.Errorf("the repeat runs %d statements, want %d", ran, size/1000)
	}
}
