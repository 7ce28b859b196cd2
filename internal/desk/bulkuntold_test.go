package desk_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/notification"
)

// silent is a store whose Redis does not tell what notifications wait for, while it is: they look queued.
type silent struct {
	desk.ManyStore
	is *atomic.Bool
}

func (s silent) View(ctx context.Context, id string) (*notification.View, error) {
	v, err := s.ManyStore.View(ctx, id)
	if err == nil && s.is.Load() && v.Status.Waiting() {
		v.Status, v.Reason, v.Partial = notification.StatusQueued, "", true
	}
	return v, err
}

// A job whose filter depends on what Redis does not tell waits for it: it neither skips what it was confirmed for nor
// changes what it was not. One whose filter does not depend on that goes on.
func TestAJobWaitsForWhatItsFilterDependsOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		filter string
		waits  bool
		done   int
	}{
		"Scheduled": {filter: "status=scheduled", waits: true, done: 2},
		"Queued":    {filter: "status=queued", waits: true, done: 0},
		"Reason":    {filter: "reason=nothing", waits: true, done: 0},
		"Waiting":   {filter: "status=scheduled,queued,deferred", done: 2},
		"Category":  {filter: "category=slow", done: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deployOnPostgres(t)
			d.accept(2, func(n *notification.Notification) { n.SendAt = time.Now().Add(time.Hour) })
			is := &atomic.Bool{}
			m := d.process("p", 0, false)
			m.Store = silent{m.Store, is}
			j := d.begin(m, desk.BulkOrder{Action: desk.ActionCancel, Filter: c.filter}, 2)
			if is.Store(true); c.waits {
				for range 2 {
					if ran, err := m.RunJob(t.Context()); ran || err == nil {
						t.Fatalf("ran %t, %v", ran, err)
					}
				}
				is.Store(false)
			}
			if j = d.run(m, j.ID); j.Status != control.JobDone || j.Done != c.done || j.Skipped != 2-c.done {
				t.Errorf("the job is %+v, want %d done", j, c.done)
			}
			for id, v := range d.all() {
				if cancelled := v.Status == notification.StatusCancelled; cancelled != (c.done > 0) {
					t.Errorf("%s is %s", id, v.Status)
				}
			}
		})
	}
}
