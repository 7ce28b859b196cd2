//go:build faults

package faults_test

import (
	"strings"
	"time"

	"github.com/pacer-notify/pacer/test/leftover"
)

// goroutinesLeft is how many more a process may have in the end than when it was ready: what is started at its first
// use.
const goroutinesLeft = 20

// countGoroutines notes how many a process has that is ready.
func (d *deployment) countGoroutines() {
	if red() {
		return
	}
	for _, w := range d.processes() {
		n, err := leftover.Goroutines(d.t.Context(), w.ops)
		if err != nil {
			d.fail("count the goroutines of a process: %v", err)
		}
		d.idle = max(d.idle, n)
	}
}

// checkServers blames what is left, and notes how long scripts took by the clock, which tells of the machine, too.
// Other tests count their work.
func (d *deployment) checkServers() {
	if red() {
		return
	}
	d.checkGoroutines()
	if d.redis == nil || d.redis.PID() == 0 { // after a fail-over the keys are elsewhere
		return
	}
	if slowest := d.redis.SlowestScript(); slowest > 0 {
		d.note("slowest script %d ms", slowest.Milliseconds())
	}
	if d.scenario.name != "QueueDeleted" { // asynq leaves the hash of a task whose list is deleted: nothing finds it again
		d.checkKeys()
	}
}

func (d *deployment) checkGoroutines() {
	for _, w := range d.processes() {
		n, err := 0, error(nil)
		if !eventually(30*time.Second, func() bool { // what a send or a request that was cut off waits for
			n, err = leftover.Goroutines(d.t.Context(), w.ops)
			return err == nil && n <= d.idle+goroutinesLeft
		}) {
			d.blame("a process has %d goroutines, %d when it was idle (%v)", n, d.idle, err)
		}
		d.t.Logf("a process has %d goroutines, %d when it was idle", n, d.idle)
	}
}

func (d *deployment) checkKeys() {
	client := d.redis.Client(d.t)
	var left []string
	var err error
	// Ends are acknowledged a moment after the store has them. What a killed process had pulled off the queue lies
	// there until its lease has ended and asynq's recoverer, which runs once a minute, finds it.
	if !eventually(3*time.Minute, func() bool {
		left, err = leftover.Keys(d.t.Context(), client)
		return err == nil && len(left) == 0
	}) {
		d.blame("%d keys are left (%v): %s", len(left), err, strings.Join(left[:min(len(left), 10)], " "))
	}
}
