package agenda_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

const (
	// scriptLimit is how many notifications one script may end, move or grant.
	scriptLimit = 100
	// commandsPerEntry is more commands than any script runs for one of them.
	commandsPerEntry = 20
)

// backlog accepts n notifications of ada in one category. If the entry has a collapse key, each has one of its own.
func (w *world) backlog(n int, e agenda.Entry) {
	w.t.Helper()
	for at := 0; at < n; at += scriptLimit {
		batch := make([]agenda.Entry, min(scriptLimit, n-at))
		for i := range batch {
			batch[i] = e
			batch[i].ID, batch[i].UserID, batch[i].Category = "m"+strconv.Itoa(at+i), "ada", "chat"
			batch[i].Priority = notification.PriorityNormal
			if e.CollapseKey != "" {
				batch[i].CollapseKey = fmt.Sprintf(e.CollapseKey, at+i)
			}
		}
		if _, err := w.store.Accept(w.test.Context(), w.store.PartitionOf("ada"), batch); err != nil {
			w.t.Fatalf("accept: %v", err)
		}
	}
}

// neighbour is a user of ada's partition.
func (w *world) neighbour() string { return w.neighbours(1)[0] }

// neighbours are n users of ada's partition.
func (w *world) neighbours(n int) (users []string) {
	for i := 0; len(users) < n; i++ {
		if user := "user" + strconv.Itoa(i); w.store.PartitionOf(user) == w.store.PartitionOf("ada") {
			users = append(users, user)
		}
	}
	return users
}

// A backlog in which everything has expired, or would wait for too long, is ended in many scripts, each of which
// handles a bounded number. Another user is served meanwhile.
func TestABacklogIsEndedInManyScripts(t *testing.T) {
	t.Parallel()
	hourly := throttle.Plan{Rules: []throttle.Rule{{Max: 1, Per: time.Hour}}}
	for name, test := range map[string]struct {
		size     int
		settings agenda.Settings
		entry    agenda.Entry
		kept     int64 // how many do not end
	}{
		"expired": {size: 5_000, entry: agenda.Entry{ExpiresAt: start.Add(time.Second)}, kept: 0},
		"would wait too long": {
			size:     2_000,
			settings: agenda.Settings{MaxDefer: 90 * time.Minute, Plan: hourly},
			kept:     2,
		},
		"waited too long": {
			size:     2_000,
			settings: agenda.Settings{MaxDefer: 1, Plan: hourly},
			kept:     1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, t, redistest.Start(t).Client(t), test.settings)
			w.backlog(test.size, test.entry)
			w.advance(2 * time.Second)
			w.accept(agenda.Entry{ID: "other", UserID: w.neighbour()})
			partition, ended, served := w.store.PartitionOf("ada"), int64(0), false
			most := 2*test.size/scriptLimit + 10
			for rounds := 0; ended < int64(test.size)-test.kept; rounds++ {
				if rounds > most {
					t.Fatalf("%d ended after %d rounds", ended, rounds)
				}
				ran := w.workOf("take", func() { w.round(partition, 8) })
				if limit := scriptLimit*commandsPerEntry + 200; ran.commands > limit {
					t.Fatalf("a round ran %d commands, more than %d", ran.commands, limit)
				}
				served = served || w.state("other").Status == notification.StatusSending
				if rounds == 3 && !served {
					t.Error("the other user was not served in the first rounds")
				}
				now := w.total().Totals.Expired
				if now-ended > scriptLimit {
					t.Fatalf("one script ended %d", now-ended)
				}
				ended = now
			}
		})
	}
}

// The sweeper ends what expired likewise, and goes on at once while more is to be done.
func TestASweepIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t, redistest.Start(t).Client(t), agenda.Settings{})
	const n = 2_000
	w.backlog(n, agenda.Entry{ExpiresAt: start.Add(time.Second)})
	w.advance(2 * time.Second)
	partition, ended := w.store.PartitionOf("ada"), 0
	for more := true; more; {
		var repairs dispatch.Repairs
		ran := w.workOf("sweep", func() {
			var err error
			if repairs, err = w.store.Sweep(t.Context(), partition); err != nil {
				t.Fatal(err)
			}
		})
		if repairs.Expired > scriptLimit || ran.commands > scriptLimit*commandsPerEntry {
			t.Fatalf("one script ended %d with %d commands", repairs.Expired, ran.commands)
		}
		ended, more = ended+repairs.Expired, repairs.More
	}
	if ended != n {
		t.Errorf("%d ended, want %d", ended, n)
	}
	w.serve()
	w.wantNothingLeft()
}

// What comes due together moves into its backlogs in many scripts as well.
func TestWhatComesDueTogetherMovesInManyScripts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t, redistest.Start(t).Client(t), agenda.Settings{
		Plan: throttle.Plan{Rules: []throttle.Rule{{Max: 1, Per: time.Hour}}}, MaxDefer: 24000 * time.Hour,
	})
	const n = 5_000
	w.backlog(n, agenda.Entry{SendAt: start.Add(time.Second)})
	w.advance(2 * time.Second)
	partition := w.store.PartitionOf("ada")
	for rounds := 0; w.total().Scheduled > 0; rounds++ {
		if rounds > 2*n/scriptLimit+10 {
			t.Fatalf("%d still wait for their time", w.total().Scheduled)
		}
		if ran := w.workOf("take", func() { w.round(partition, 8) }); ran.commands > scriptLimit*commandsPerEntry {
			t.Fatalf("a round ran %d commands", ran.commands)
		}
	}
	w.serve()
	if total := w.total(); total.Sending != 1 || total.Deferred != n-1 {
		t.Errorf("then %+v", total)
	}
}
