//go:build accept

package e2e_test

import (
	"context"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/test/leftover"
)

// goroutinesLeft is how many more a process may have in the end than when it was ready: what its first use starts.
const goroutinesLeft = 20

// watchLeftovers checks, when the scenario is over, what is left when everything has ended, and notes how long scripts
// took.
func (d *deployment) watchLeftovers() {
	d.t.Helper()
	idle := 0
	for _, w := range d.workers {
		idle = max(idle, d.goroutines(w))
	}
	d.t.Cleanup(func() {
		d.t.Logf("slowest script %s (0s: each less than 10ms)", d.redis.SlowestScript())
		d.checkLeftovers(idle)
	})
}

// checkLeftovers looks for keys and goroutines that nothing needs any more. A scenario that ends while something waits
// has more.
func (d *deployment) checkLeftovers(idle int) {
	worker := d.workers[len(d.workers)-1]
	if s := d.stats(worker); s.ended() != s.Totals.Accepted {
		d.t.Logf("%d still wait: keys and goroutines are not checked", s.Totals.Accepted-s.ended())
		return
	}
	client := d.redis.Client(d.t)
	for deadline := time.Now().Add(30 * time.Second); ; <-time.After(200 * time.Millisecond) {
		keys, err := leftover.Keys(context.WithoutCancel(d.t.Context()), client)
		if err != nil {
			d.t.Fatal(err)
		}
		goroutines := d.goroutines(worker)
		if len(keys) == 0 && goroutines <= idle+goroutinesLeft {
			return
		}
		if time.Now().After(deadline) {
			d.t.Errorf("%d keys are left: %s; %d goroutines, %d when the process was idle",
				len(keys), strings.Join(keys[:min(len(keys), 10)], " "), goroutines, idle)
			return
		}
	}
}

func (d *deployment) goroutines(w *worker) int {
	d.t.Helper()
	n, err := leftover.Goroutines(context.WithoutCancel(d.t.Context()), w.ops)
	if err != nil {
		d.t.Fatal(err)
	}
	return n
}
