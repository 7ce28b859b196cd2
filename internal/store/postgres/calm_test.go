package postgres_test

import (
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/test/redistest"
)

// A relay that has nothing to do asks each store once. Whatever happens ends that, and the next round does what there
// is to do, until all is calm again.
func TestARelayIsCalmUntilSomethingHappens(t *testing.T) {
	t.Parallel()
	for name, happens := range map[string]func(t *testing.T, w *world){
		"a producer enqueues": func(t *testing.T, w *world) { t.Helper(); w.enqueueMany(t, "ada", 1) },
		"a process accepts":   func(t *testing.T, w *world) { t.Helper(); w.accept(t, "ada", "chat", 1) },
		"a process delivers": func(t *testing.T, w *world) {
			t.Helper()
			w.accept(t, "ada", "chat", 1)
			w.deliver(t, "ada")
		},
		"a backlog is blocked": func(t *testing.T, w *world) {
			t.Helper()
			w.accept(t, "ada", "slow", 2)
			w.deliver(t, "ada")
		},
		"a notification expires": func(t *testing.T, w *world) {
			t.Helper()
			w.acceptOne(t, notification.Notification{ID: "late", ExpiresAt: time.Now().Add(time.Minute)})
			w.round(t)
			key := w.prefix() + "y"
			if err := w.redis.ZAdd(t.Context(), key, goredis.Z{Member: "late", Score: 1}).Err(); err != nil {
				t.Fatal(err)
			}
			w.sweep(t)
		},
		"what is accepted is left": func(t *testing.T, w *world) {
			t.Helper()
			w.exec(t, `INSERT INTO pacer.outbox (key, ids, due_at) VALUES ('a', '{a}', now())`)
		},
		"Redis is lost": func(t *testing.T, w *world) { t.Helper(); w.flush(t) },
		"a partition was built on another server": func(t *testing.T, w *world) {
			t.Helper()
			if err := w.redis.Set(t.Context(), w.prefix()+"epoch", "1 agendas server another", 0).Err(); err != nil {
				t.Fatal(err)
			}
		},
		"another epoch begins": func(t *testing.T, w *world) {
			t.Helper()
			w.exec(t, "UPDATE pacer.partitions SET epoch = epoch + 1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, redistest.Client(t))
			w.accept(t, "eve", "chat", 1)
			w.deliver(t, "eve")
			w.calm(t)
			happens(t, w)
			if w.relay.Calm(t.Context()) {
				t.Error("the relay sees nothing to do")
			}
			w.calm(t)
		})
	}
}

// calm makes a round, after which nothing is to be done.
func (w *world) calm(t *testing.T) {
	t.Helper()
	w.round(t)
	if !w.relay.Calm(t.Context()) {
		t.Fatal("after a round the relay still sees something to do")
	}
}
