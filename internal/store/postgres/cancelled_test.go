package postgres_test

import (
	"sync"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres"
)

// A process dies, or is stopped, between the two steps of a cancel: Postgres knows that the notification has ended, and
// Redis does not. It is no difference, because the relay is about to remove it.
func TestACancelMayStopHalfway(t *testing.T) {
	t.Parallel()
	w := endWorld(t)
	w.accept(t, "ada", "chat", 2)
	w.deliver(t, "ada")
	if err := w.diesBeforePut(t).store.Cancel(t.Context(), "ada-chat-1"); err != nil {
		t.Fatal(err)
	}
	if n := w.inBacklogs(t); n != 1 {
		t.Fatalf("%d wait in Redis, want the cancelled one", n)
	}
	if got := w.differences(t); len(got) > 0 {
		t.Errorf("Redis and Postgres differ: %v", got)
	}
	w.round(t)
	if n := w.inBacklogs(t); n != 0 {
		t.Errorf("%d wait in Redis", n)
	}
	w.wantNothingLeft(t)
}

// The relay has read a notification from the outbox when it is cancelled, and puts it into its backlog afterwards. It
// takes it out again.
func TestACancelMayOvertakeTheRelay(t *testing.T) {
	t.Parallel()
	w := endWorld(t)
	w.exec(t, `SELECT pacer.enqueue('{"id": "overtaken", "user_id": "ada", "category": "free", "channel": "log"}')`)
	placing, cancelled := make(chan struct{}), make(chan struct{})
	var first sync.Once
	slow := w.process(t, postgres.Config{}, func(*process) error {
		var free int
		if err := w.pool.QueryRow(t.Context(), `SELECT count(*) FROM (
			SELECT FROM pacer.outbox FOR UPDATE SKIP LOCKED) unlocked`).Scan(&free); err == nil && free == 0 {
			first.Do(func() { close(placing) })
			<-cancelled
		}
		return nil
	})
	relay := postgres.NewRelay(slow.store, postgres.RelayConfig{
		Check:   func(*notification.Notification) error { return nil },
		Windows: func() time.Duration { return time.Hour },
	})
	done := make(chan error)
	go func() { done <- relay.Round(t.Context()) }()
	<-placing
	if err := w.store.Cancel(t.Context(), "overtaken"); err != nil {
		t.Fatal(err)
	}
	close(cancelled)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.round(t)
	if n := w.inBacklogs(t); n != 0 {
		t.Errorf("%d wait in Redis", n)
	}
	if got := w.differences(t); len(got) > 0 {
		t.Errorf("Redis and Postgres differ: %v", got)
	}
	w.wantNothingLeft(t)
}
