package mailbox_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/mailbox"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// scriptLimit is how many entries one script may end or move.
const scriptLimit = 100

// many puts n notifications of ada into one line.
func (w *world) many(n int, e mailbox.Entry) {
	w.t.Helper()
	e.UserID, e.Category, e.Priority = "ada", "chat", notification.PriorityNormal
	for at := 0; at < n; at += 500 {
		batch := make([]mailbox.Entry, 500)
		for i := range batch {
			batch[i] = e
			batch[i].ID = "m" + strconv.Itoa(at+i)
		}
		if _, err := w.store.Put(w.test.Context(), w.store.LaneOf("ada"), batch); err != nil {
			w.t.Fatalf("put: %v", err)
		}
	}
}

// sameLane is a user beside ada.
func (w *world) sameLane() string {
	for i := 0; ; i++ {
		if user := "user" + strconv.Itoa(i); w.store.LaneOf(user) == w.store.LaneOf("ada") {
			return user
		}
	}
}

// A line in which everything has expired, or waits for too long, is ended in many scripts, none of which makes others wait
// for long; the tick asks again at once.
func TestALineIsEndedInManyScripts(t *testing.T) {
	t.Parallel()
	const n = 5_000
	for name, test := range map[string]struct {
		terms mailbox.Terms
		entry mailbox.Entry
		kept  int64 // how many do not end
	}{
		"expired":       {mailbox.Terms{}, mailbox.Entry{ExpiresAt: start.Add(time.Second)}, 0},
		"wait too long": {mailbox.Terms{MaxDefer: 90 * time.Minute, Plan: throttle.Plan{Rules: []throttle.Rule{{Max: 1, Per: time.Hour}}}}, mailbox.Entry{}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, test.terms)
			w.many(n, test.entry)
			w.advance(2 * time.Second)
			other := w.sameLane()
			otherTick := dispatch.Tick{ID: "other", Mailbox: dispatch.MailboxOf(other, "chat", 2)}
			w.put(mailbox.Entry{ID: "other", UserID: other})
			asked, ended, served := 0, int64(0), false
			for number := 0; w.total().Expired < n-test.kept; number++ {
				if asked++; asked > 2*n/scriptLimit {
					t.Fatalf("%d ended after %d scripts", ended, asked)
				}
				questions := []dispatch.Question{{Tick: tickOf("m" + strconv.Itoa(number%50)), Nonce: "q" + strconv.Itoa(asked), Pulled: true}}
				if asked == 2 {
					questions = append(questions, dispatch.Question{Tick: otherTick, Nonce: "other", Pulled: true})
				}
				answers, faults := w.store.TakeAll(t.Context(), otherTick.Lane, questions)
				for i := range faults {
					if faults[i] != nil {
						t.Fatal(faults[i])
					}
				}
				served = served || asked == 2 && answers[1].Granted != nil
				now := w.total().Expired
				if now-ended > scriptLimit {
					t.Fatalf("one script ended %d", now-ended)
				}
				if wait := answers[0].Wait; now < n-test.kept && now > ended && (wait == nil || wait.For > 0) {
					t.Fatalf("after %d the tick is told %+v", now, answers[0])
				}
				ended = now
			}
			if !served {
				t.Error("the other user was not served in the second script")
			}
		})
	}
}

// The sweeper ends what expired likewise, and goes on at once while more is to be done.
func TestASweepIsBounded(t *testing.T) {
	t.Parallel()
	w := setup(t, mailbox.Terms{})
	const n = 1500
	w.many(n, mailbox.Entry{ExpiresAt: start.Add(time.Second)})
	w.advance(2 * time.Second)
	lane, ended := w.store.LaneOf("ada"), 0
	for more := true; more; {
		repairs, err := w.store.Sweep(t.Context(), lane)
		if err != nil {
			t.Fatal(err)
		}
		if repairs.Expired > scriptLimit {
			t.Fatalf("one script ended %d", repairs.Expired)
		}
		ended, more = ended+repairs.Expired, repairs.More
	}
	if ended != n {
		t.Errorf("%d ended, want %d", ended, n)
	}
}

// All wake-ups of a long line are lost: the sweeper finds out in one round of scripts, and one new wake-up drains the line.
func TestALongLineWithoutTicksGoesOn(t *testing.T) {
	t.Parallel()
	w := setup(t, mailbox.Terms{})
	const n = 1000
	w.many(n, mailbox.Entry{})
	w.advance(2 * grace)
	lane := w.store.LaneOf("ada")
	scripts := 0
	for more := true; more; scripts++ {
		repairs, err := w.store.Sweep(t.Context(), lane)
		if err != nil {
			t.Fatal(err)
		}
		for _, tick := range repairs.Ticks {
			w.ticks[tick] = w.now
		}
		more = repairs.More
	}
	if scripts > n/scriptLimit+2 {
		t.Errorf("it took %d scripts", scripts)
	}
	before := w.now
	if got := w.drain(); len(got) != n || w.now.Sub(before) > time.Second {
		t.Errorf("%d of %d were delivered in %s", len(got), n, w.now.Sub(before))
	}
}
