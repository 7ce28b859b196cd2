package postgres_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres"
)

// refuse makes the database refuse to write a status, the first so many times. A sequence keeps its count when a
// statement fails.
func (w *world) refuse(t *testing.T, status string, times int) {
	t.Helper()
	w.exec(t, "CREATE SEQUENCE tries")
	w.exec(t, fmt.Sprintf(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF NEW.status = '%s' AND nextval('tries') <= %d THEN RAISE EXCEPTION 'not now'; END IF;
			RETURN NEW;
		END $$`, status, times))
	w.exec(t, "CREATE TRIGGER refuse BEFORE UPDATE ON pacer.notifications FOR EACH ROW EXECUTE FUNCTION refuse()")
}

// comeDue makes everything of a user due that waits for a moment of its own, and sweeps.
func (w *world) comeDue(t *testing.T, user string) {
	t.Helper()
	later := w.prefixOf(user) + "r:" + user
	for _, id := range w.redis.ZRange(t.Context(), later, 0, -1).Val() {
		if err := w.redis.ZAddXX(t.Context(), later, goredis.Z{Score: 1, Member: id}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	wakeups := w.prefixOf(user) + "wakeups"
	if err := w.redis.ZAddXX(t.Context(), wakeups, goredis.Z{Score: 1, Member: user}).Err(); err != nil {
		t.Fatal(err)
	}
	w.sweep(t)
}

// A grant whose claim is declined or fails is returned at once. Nothing is lost: a wake-up stands for whatever is left,
// which goes when it may. A grant that would come again unchanged is kept for a while, so that it does not go round in
// circles.
func TestAGrantThatIsNotUsedIsReturned(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil, restore string // statements
		refuse         string // status that the database refuses to write once
		fails          bool
		patience       time.Duration // with the claim; a minute unless set
		kept           time.Duration // before it is returned
		meanwhile      []string      // delivered while the notification waits for another worker's lease
		status         string        // in the end
		want           []string      // delivered in the end
	}{
		"Ended": {
			spoil:  "UPDATE pacer.notifications SET status = 'cancelled', ended_at = now() WHERE id = 'ada-slow-0'",
			status: "cancelled",
			want:   []string{"ada-slow-1"},
		},
		"Void": {
			spoil:   "UPDATE pacer.partitions SET epoch = epoch + 1",
			restore: "UPDATE pacer.partitions SET epoch = epoch - 1",
			kept:    500 * time.Millisecond, status: "delivered", want: []string{"ada-slow-0"},
		},
		"Busy": {
			spoil: `UPDATE pacer.notifications SET status = 'sending', token = 'another',
				claimed_until = now() + interval '1 hour' WHERE id = 'ada-slow-0'`,
			restore: `UPDATE pacer.notifications SET claimed_until = now() - interval '1 second'
				WHERE status = 'sending'`,
			meanwhile: []string{"ada-slow-1"}, status: "delivered", want: []string{"ada-slow-0"},
		},
		"Expired": {
			spoil:  "UPDATE pacer.notifications SET expires_at = now() - interval '1 second' WHERE id = 'ada-slow-0'",
			status: "expired",
			want:   []string{"ada-slow-1"},
		},
		"EndFails": {
			spoil:  "UPDATE pacer.notifications SET expires_at = now() - interval '1 second' WHERE id = 'ada-slow-0'",
			refuse: "expired", fails: true, kept: 50 * time.Millisecond, status: "expired",
			want: []string{"ada-slow-1"},
		},
		"ClaimFails": {
			spoil:   "ALTER TABLE pacer.preferences RENAME TO away",
			restore: "ALTER TABLE pacer.away RENAME TO preferences",
			fails:   true, patience: 100 * time.Millisecond, kept: 100 * time.Millisecond,
			status: "delivered", want: []string{"ada-slow-0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := endWorld(t)
			p := w.process(t, postgres.Config{
				ClaimPatience: cmp.Or(c.patience, time.Minute), StatementTimeout: time.Minute,
			}, func(*process) error { return nil })
			w.accept(t, "ada", "slow", 2) // one an hour
			w.exec(t, c.spoil)
			if c.refuse != "" {
				w.refuse(t, c.refuse, 1)
			}
			granted := w.ask(t, "ada", 1).Grants
			if len(granted) != 1 || granted[0].Notification.ID != "ada-slow-0" {
				t.Fatalf("granted %+v", granted)
			}
			begun := time.Now()
			if ok, err := p.store.Claim(t.Context(), granted[0]); ok || (err != nil) != c.fails {
				t.Fatalf("claimed: %t, %v", ok, err)
			}
			if kept := time.Since(begun); kept < c.kept {
				t.Errorf("it was returned after %s, want it kept for %s: it may be granted again at once", kept, c.kept)
			}
			if n := w.redis.ZCard(t.Context(), w.prefix()+"e").Val(); n != 0 {
				t.Errorf("%d are in flight: it was not returned", n)
			}
			w.wantAwake(t, "ada")
			if c.restore != "" {
				w.exec(t, c.restore)
			}
			if c.meanwhile != nil {
				if got := w.deliverAll(t); !slices.Equal(got, c.meanwhile) { // its slot was refunded
					t.Errorf("while another has it %v are delivered, want %v", got, c.meanwhile)
				}
				w.wantAwake(t, "ada")
				w.clear(t, "ada", "slow")
				w.comeDue(t, "ada")
			}
			if got := w.deliverAll(t); !slices.Equal(got, c.want) {
				t.Errorf("delivered %v, want %v", got, c.want)
			}
			w.wantStatus(t, "ada-slow-0", c.status)
			w.wantAwake(t, "ada")
		})
	}
}

// clear forgets the windows of a user's category.
func (w *world) clear(t *testing.T, user, category string) {
	t.Helper()
	if err := w.agendas.Clear(t.Context(), dispatch.BacklogOf(user, category, w.agendas.Partitions())); err != nil {
		t.Fatal(err)
	}
}

// The result of a claim was lost, and the claim is repeated: it holds, and makes one attempt. Another grant does not
// have it.
func TestAClaimWhoseResultWasLostHolds(t *testing.T) {
	t.Parallel()
	w := endWorld(t)
	w.accept(t, "ada", "free", 1)
	granted := w.ask(t, "ada", 1).Grants[0]
	first, again, another := *granted, *granted, *granted
	another.Generation++
	if !w.claim(t, &first) || !w.claim(t, &again) {
		t.Fatal("the same claim does not hold twice")
	}
	if again.Claimed != first.Claimed || again.Attempt != 1 || again.Notification.ID != "ada-free-0" ||
		again.Notification.UserID != "ada" {
		t.Errorf("the repeated claim is %+v, the first was %+v", again, first)
	}
	if w.claim(t, &another) {
		t.Error("another grant has the same claim")
	}
	if s := w.settle(t, &first, delivered); s.Stale {
		t.Error("the result of the claim is refused")
	}
	w.wantStatus(t, "ada-free-0", "delivered")
	if total := w.stats(t); total.Totals.Attempts != 1 || total.Totals.Delivered != 1 {
		t.Errorf("totals are %+v", total)
	}
}

// Postgres is away for a moment: the claim is tried again, the grant keeps its slot, and nothing else is granted for
// it.
func TestAClaimIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := endWorld(t)
	w.accept(t, "ada", "slow", 2)
	w.refuse(t, string(notification.StatusSending), 2)
	g := w.take(t, "ada")
	if g == nil || g.Generation != 1 || g.Attempt != 1 {
		t.Fatalf("claimed %+v", g)
	}
	if s := w.settle(t, g, delivered); s.Stale {
		t.Error("the result is refused")
	}
	w.wantStatus(t, "ada-slow-0", "delivered")
	if in := w.wakesIn(t, "ada"); in < 30*time.Minute {
		t.Errorf("its slot is free: the next wake-up comes in %s", in)
	}
}

// Redis was lost while a grant was on its way to be claimed. After the rebuild Redis grants the same notification,
// under the same generation. Whatever becomes of the old grant does not touch the new one: its slot stays taken, and it
// stays in flight.
func TestAGrantFromBeforeALossLeavesTheNextAlone(t *testing.T) {
	t.Parallel()
	w := endWorld(t)
	w.accept(t, "ada", "slow", 1)
	old := w.ask(t, "ada", 1).Grants[0]
	w.flush(t)
	if _, err := w.relay.RebuildLost(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := w.take(t, "ada")
	if next == nil || next.Generation != old.Generation || next.Epoch == old.Epoch {
		t.Fatalf("after %+v is granted %+v", old, next)
	}
	if w.claim(t, old) {
		t.Fatal("a grant from before the loss is claimed")
	}
	if n := w.redis.ZCard(t.Context(), w.prefix()+"e").Val(); n != 1 {
		t.Errorf("%d are in flight, want the next", n)
	}
	if s := w.settle(t, next, delivered); s.Stale {
		t.Error("the result of the next is refused")
	}
	w.accept(t, "ada", "slow", 2) // the first of them is known
	if got := w.deliverAll(t); len(got) > 0 {
		t.Errorf("%v are delivered within the hour: the slot was refunded", got)
	}
}
