//go:build accept

package e2e_test

import (
	"context"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/test/leftover"
)

const (
	// scriptLimit is what no script may take, but for what the machine kept Redis from running (package slowlog).
	scriptLimit = 10 * time.Millisecond
	// goroutinesLeft is how many more a process may have in the end than when it was ready: what is started at its
	// first use.
	goroutinesLeft = 20
)

// watchScripts checks, when the scenario is over, how long scripts took, and what is left when everything has ended.
func (d *deployment) watchScripts() {
	d.t.Helper()
	watch, idle := d.redis.WatchScripts(d.t), 0
	for _, w := range d.workers {
		idle = max(idle, d.goroutines(w))
	}
	d.t.Cleanup(func() {
		log := watch.End()
		d.t.Logf("slowest script %s", log.Slowest())
		for _, step := range log.Over(scriptLimit) {
			d.t.Errorf("a script took more than %s: %s", scriptLimit, step)
		}
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
