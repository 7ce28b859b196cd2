package desk_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/desk"
)

// The rate of a job holds over all processes that could run it, however slow it is: the one that has the job keeps it
// while it waits.
func TestASlowRateHoldsOverAllProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDeployment(t)
		const n = 120
		d.accept(n, nil)
		<-time.After(time.Second)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		var first *desk.Many
		for _, name := range []string{"p", "q", "r"} {
			m := d.process(name, 0, false)
			if m.Rate = 1; first == nil {
				first = m
			}
			running.Go(func() { m.Run(ctx) })
		}
		j := d.begin(first, desk.BulkOrder{Action: desk.ActionCancel, Filter: ""}, n)
		<-time.After(60 * time.Second)
		j, err := first.Job(t.Context(), j.ID)
		if err != nil || j.Done < 50 || j.Done > 66 {
			t.Errorf("after a minute at one a second %+v, %v", j, err)
		}
		<-time.After(75 * time.Second)
		if j, err = first.Job(t.Context(), j.ID); err != nil || j.Status != control.JobDone || j.Done != n {
			t.Errorf("in the end %+v, %v", j, err)
		}
		stop()
		running.Wait()
	})
}
