package desk_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/test/redistest"
)

// Wherever the process dies that runs a job, another finishes it: each notification goes on exactly once, over the
// other channel. What is atomic differs from store to store, so each is asked.
func TestAMoveSurvivesEveryDeath(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) *deployment{
		"Redis":    func(t *testing.T) *deployment { t.Helper(); return deployOnRedis(t, redistest.Client(t)) },
		"Postgres": deployOnPostgres,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			surviveEveryDeath(t, open)
		})
	}
}

func surviveEveryDeath(t *testing.T, open func(*testing.T) *deployment) {
	t.Helper()
	const n = 3
	for _, late := range []bool{false, true} {
		for die, reached := 1, true; reached; die++ { // a case tells whether there is a next one
			t.Run(fmt.Sprintf("step %d, done %t", die, late), func(t *testing.T) {
				d := open(t)
				old := d.accept(n, nil)
				j := d.begin(d.process("first", 0, false), desk.BulkOrder{Action: "move", Channel: "log"}, n)
				first := d.process("first", die, late)
				_, err := first.RunJob(t.Context())
				if reached = errors.Is(err, errDead); !reached && err != nil {
					t.Fatal(err)
				}
				second := d.process("second", 0, false)
				if _, err := second.RunJob(t.Context()); err != nil {
					t.Fatal(err)
				}
				d.later = time.Minute
				if _, err := second.RunJob(t.Context()); err != nil {
					t.Fatal(err)
				}
				all := d.all()
				var news []string
				for _, id := range old {
					v := all[id]
					next, moved := strings.CutPrefix(v.Reason, "moved: ")
					if v.Status != notification.StatusCancelled || !moved || all[next].Channel != "log" ||
						!all[next].Status.Waiting() || all[next].UserID != v.UserID || all[next].Title != "hello" {
						t.Errorf("%s is %s (%s), and goes on as %+v", id, v.Status, v.Reason, all[next])
					}
					news = append(news, next)
				}
				if len(all) != 2*n {
					t.Errorf("there are %d, want %v and %v", len(all), old, news)
				}
				ended, err := second.Job(t.Context(), j.ID)
				if err != nil || ended.Status != control.JobDone || ended.Done != n || ended.Refused != 0 {
					t.Errorf("the job is %+v, %v", ended, err)
				}
			})
		}
	}
}

// Wherever the process dies that runs a job, what the job sent again counts as done, and what had been sent again
// before the job began as skipped.
func TestARepeatedBatchTellsWhatItsJobDid(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) *world{"Redis": onRedis, "Postgres": onPostgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for die, reached := 1, true; reached; die++ {
				t.Run(fmt.Sprint("step ", die), func(t *testing.T) { reached = tellsWhatItsJobDid(t, open(t), die) })
			}
		})
	}
}

// tellsWhatItsJobDid has a process die at a step of a job, and returns whether there is such a step.
func tellsWhatItsJobDid(t *testing.T, w *world, die int) bool {
	t.Helper()
	const n, before = 3, 2
	failed := w.fail(n+before, func(i int, n *notification.Notification) { n.UserID = fmt.Sprint("user", i) })
	d := deploy(t, w.bulk(), w.control)
	second := d.process("second", 0, false)
	for _, id := range failed[:before] {
		if _, err := second.Retry(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	j := d.begin(second, desk.BulkOrder{Action: desk.ActionRetry}, n+before)
	_, err := d.process("first", die, true).RunJob(t.Context())
	reached := errors.Is(err, errDead)
	if !reached && err != nil {
		t.Fatal(err)
	}
	d.later = time.Minute
	if _, err := second.RunJob(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended, err := second.Job(t.Context(), j.ID)
	if err != nil || ended.Status != control.JobDone ||
		ended.Done != n || ended.Skipped != before || ended.Refused != 0 {
		t.Errorf("the job is %+v, %v; want %d done and %d skipped", ended, err, n, before)
	}
	return reached
}
