package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/internal/store/postgres/connect"
	"github.com/pacer-notify/pacer/internal/store/postgres/relay"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// hasty has a refusal end a notification at the second look.
const hasty = time.Nanosecond

// lagging is a relay of a process without the policy that names a category, with the patience of its refusals.
func (w *world) lagging(category string, patience time.Duration) *relay.Relay {
	return relay.New(w.store.Stores, relay.Config{
		RefusalPatience: patience,
		Windows:         func(string) time.Duration { return time.Hour },
		Check: func(n *notification.Notification) error {
			if n.Category == category {
				return errors.New("category: is not named in the policy")
			}
			return nil
		},
	})
}

// What no process allows ends as failed, and takes no place in a backlog.
func TestOutboxIsChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	w.exec(t,
		`SELECT pacer.enqueue('{"id":"good","user_id":"ada","category":"free"}'),
			pacer.enqueue('{"id":"bad","user_id":"ada","category":"slow"}')`)
	w.relay = w.lagging("slow", hasty)
	w.round(t)
	w.wantStatus(t, "bad", "waiting")
	w.round(t)
	if v, err := w.store.View(t.Context(), "bad"); err != nil || v.Status != notification.StatusFailed ||
		v.Reason != "refused: category: is not named in the policy" {
		t.Errorf("the bad one: %+v, %v", v, err)
	}
	w.round(t)
	w.wantNothingLeft(t)
	if waiting := w.inBacklogs(t); waiting != 1 {
		t.Errorf("%d are in their backlogs, want the good one only", waiting)
	}
	w.wantAwake(t, "ada")
	if got := w.deliverAll(t); !slices.Equal(got, []string{"good"}) {
		t.Errorf("delivered %v, want the good one only", got)
	}
}

// A worker with an older policy refuses what a producer wrote into the database. One with the newer policy places it,
// in spite of the refusals before. More than a batch of what is refused does not hold up the rest.
func TestARefusalWaitsForTheOtherProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	w.exec(t, `SELECT pacer.enqueue(jsonb_build_object('id', 'slow-' || i, 'user_id', 'ada', 'category', 'slow'))
		FROM generate_series(1, 1200) i`)
	w.exec(t, `SELECT pacer.enqueue('{"id":"free","user_id":"ada","category":"free"}')`)
	old := w.lagging("slow", time.Hour)
	for range 2 {
		if err := old.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if waiting := w.inBacklogs(t); waiting != 1 {
		t.Errorf("%d are in their backlogs, want those only that are not refused", waiting)
	}
	w.round(t)
	if waiting := w.inBacklogs(t); waiting != 1201 {
		t.Errorf("%d are in their backlogs, want all", waiting)
	}
	w.wantNothingLeft(t)
}

// What the API accepted stands in the outbox because Redis was away or its process died. No worker refuses it, however
// old its policy is.
func TestWhatWasAcceptedIsNotRefused(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(t *testing.T, w *world){
		"NotPlaced": func(t *testing.T, w *world) {
			t.Helper()
			w.flush(t)
			w.accept(t, "ada", "slow", 1)
			var left int
			if err := w.pool.QueryRow(t.Context(), "SELECT count(*) FROM pacer.outbox").Scan(&left); err != nil || left != 1 {
				t.Errorf("%d are in the outbox, %v; want 1", left, err)
			}
		},
		"LeftBehind": func(t *testing.T, w *world) {
			t.Helper()
			w.exec(t, `INSERT INTO pacer.notifications (id, user_id, category, channel, priority)
				VALUES ('ada-slow-0', 'ada', 'slow', 'log', 3)`)
			w.exec(t, "UPDATE pacer.outbox SET due_at = now() - interval '1 min'")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, redistest.Client(t))
			leave(t, w)
			w.relay = w.lagging("slow", hasty)
			for range 3 {
				w.round(t)
			}
			if got := w.deliverAll(t); !slices.Equal(got, []string{"ada-slow-0"}) {
				t.Errorf("delivered %v, want what was accepted", got)
			}
			w.wantStatus(t, "ada-slow-0", "delivered")
			w.wantNothingLeft(t)
		})
	}
}

// A producer's notification that no process has allowed yet is not sent because Redis is rebuilt.
func TestARebuildRestoresNothingUnchecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	w.exec(t,
		`SELECT pacer.enqueue('{"id":"good","user_id":"ada","category":"free"}'),
			pacer.enqueue('{"id":"bad","user_id":"ada","category":"slow"}')`)
	w.relay = w.lagging("slow", time.Hour)
	if _, err := w.relay.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.deliverAll(t); len(got) != 0 {
		t.Errorf("delivered %v before any process has allowed them", got)
	}
	w.round(t)
	if got := w.deliverAll(t); !slices.Equal(got, []string{"good"}) {
		t.Errorf("delivered %v, want the good one only", got)
	}
	w.wantStatus(t, "bad", "waiting")
}

// A relay is placing producers' notifications while Redis is rebuilt: it has told Redis of some, and takes their rows
// out of the outbox once the rebuild has read it. The rebuild restores these.
func TestARebuildRestoresWhatIsBeingPlaced(t *testing.T) {
	t.Parallel()
	const many = 100 // two scripts
	w := newWorldOn(t, redistest.Client(t), agenda.Config{MaxCrashes: 1000}, postgrestest.URL(t), connect.Direct,
		func(cfg *postgres.Config) { cfg.PlacePatience = 100 * time.Millisecond })
	w.enqueueMany(t, "ada", many)
	halfway, rebuilt := make(chan struct{}), make(chan struct{})
	var once sync.Once
	p := w.process(t, postgres.Config{}, func(*process) error {
		if counts, err := outlook.Of(w.agendas).Stats(context.Background()); err == nil && counts.Queued > 0 {
			once.Do(func() {
				close(halfway)
				<-rebuilt
			})
		}
		return nil
	})
	relay := relay.New(p.store.Stores, relay.Config{
		Check:   func(*notification.Notification) error { return nil },
		Windows: func(string) time.Duration { return time.Hour },
	})
	placed := make(chan error, 1)
	go func() { placed <- relay.Round(t.Context()) }()
	select {
	case <-halfway:
	case err := <-placed:
		t.Fatalf("it has not placed in two scripts: %v", err)
	}
	_, err := w.relay.Rebuild(t.Context())
	close(rebuilt)
	if err := errors.Join(err, <-placed); err != nil {
		t.Fatal(err)
	}
	w.round(t)
	w.wantNothingLeft(t)
	w.wantInLine(t, many)
}

// What one process allows is accepted, though it can't be placed at this moment. A process with an older policy refuses
// it no more.
func TestWhatIsAllowedIsNotRefused(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	w := newWorldOn(t, redistest.Client(t), agenda.Config{MaxCrashes: 1000, Full: full.Load}, postgrestest.URL(t),
		connect.Direct)
	w.exec(t, `SELECT pacer.enqueue('{"id":"n","user_id":"ada","category":"slow"}')`)
	old := w.lagging("slow", hasty)
	refuse := func() {
		t.Helper()
		if err := old.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	refuse()
	full.Store(true)
	w.round(t)
	refuse()
	refuse()
	w.wantStatus(t, "n", "waiting")
	full.Store(false)
	w.round(t)
	if got := w.deliverAll(t); !slices.Equal(got, []string{"n"}) {
		t.Errorf("delivered %v, want what was allowed", got)
	}
}

// Much that is refused takes a bounded part of each round.
func TestMuchThatIsRefusedHoldsUpNothing(t *testing.T) {
	t.Parallel()
	const many, batch = 3000, 500
	w := newWorld(t, redistest.Client(t))
	checked := 0
	w.relay = relay.New(w.store.Stores, relay.Config{
		RefusalPatience: hasty,
		Windows:         func(string) time.Duration { return time.Hour },
		Check: func(*notification.Notification) error {
			checked++
			return errors.New("category: is not named in the policy")
		},
	})
	w.exec(t, fmt.Sprintf(`SELECT pacer.enqueue(jsonb_build_object('id', 'slow-' || i, 'user_id', 'ada', 'category', 'slow'))
		FROM generate_series(1, %d) i`, many))
	w.round(t)
	for rounds := 1; ; rounds++ {
		checked = 0
		w.round(t)
		if checked > batch {
			t.Errorf("a round checks %d again", checked)
		}
		var waiting int
		if err := w.pool.QueryRow(t.Context(),
			"SELECT count(*) FROM pacer.notifications WHERE ended_at IS NULL").Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		if waiting == 0 {
			break
		}
		if rounds > 2*many/batch {
			t.Fatalf("%d wait after %d rounds", waiting, rounds)
		}
	}
}
