//go:build faults

package faults_test

import (
	"regexp"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/test/leftover"
	"github.com/pacer-notify/pacer/test/slowlog"
)

// What no script and no statement may take, but for what the machine kept its server from running.
const (
	scriptLimit    = 10 * time.Millisecond
	statementLimit = 250 * time.Millisecond
)

// starving are the scenarios whose fault makes the servers themselves slow, so that nothing is checked from its
// beginning until deliveries go on: a store that is frozen, locked, without disk, or told another time while it
// measures; a Postgres that fails over, or whose replies and locks wait for the network; a process that is stopped with
// locks in its hands. Other faults have to do without slow steps. A kill or a restart of a store excuses by itself what
// ran then.
var starving = regexp.MustCompile(`^(RedisFrozen|RedisClock|RedisDiskFull|Postgres|Network|PgBouncer|WorkerPaused)|FailsOver$`)

// goroutinesLeft is how many more a process may have in the end than when it was ready: what is started at its first
// use.
const goroutinesLeft = 20

// watches see what the servers and processes do in a scenario.
type watches struct {
	scripts, statements *slowlog.Watch
	goroutines          int
	from, until         time.Time // of the fault, where it excuses
}

// watch begins when the processes are ready.
func (d *deployment) watch() {
	if red() {
		return
	}
	if d.redis != nil {
		d.watches.scripts = d.redis.WatchScripts(d.t)
	}
	if d.postgres != nil {
		d.watches.statements = d.postgres.WatchStatements(d.t)
	}
	for _, w := range d.processes() {
		n, err := leftover.Goroutines(d.t.Context(), w.ops)
		if err != nil {
			d.fail("count the goroutines of a process: %v", err)
		}
		d.watches.goroutines = max(d.watches.goroutines, n)
	}
}

// fault reports when the fault was, until deliveries went on.
func (w *watches) fault(s *scenario, from, until time.Time) {
	if starving.MatchString(s.name) {
		w.from, w.until = from, until
	}
}

// checkServers blames what took too long, and what is left.
func (d *deployment) checkServers() {
	if red() {
		return
	}
	d.checkLog(d.watches.scripts, "script", scriptLimit)
	d.checkLog(d.watches.statements, "statement", statementLimit)
	d.checkGoroutines()
	// After a fail-over the keys are elsewhere. Of a task whose list is deleted asynq leaves the hash: nothing finds it
	// again.
	if d.redis != nil && d.redis.PID() != 0 && d.scenario.name != "QueueDeleted" {
		d.checkKeys()
	}
}

func (d *deployment) checkLog(watch *slowlog.Watch, kind string, limit time.Duration) {
	if watch == nil {
		return
	}
	log := watch.End()
	if !d.watches.from.IsZero() {
		log.Excuse(d.watches.from, d.watches.until)
	}
	slowest, over := log.Slowest(), log.Over(limit)
	d.t.Logf("slowest %s %s", kind, slowest)
	d.note("slowest %s %d ms", kind, slowest.Took.Milliseconds())
	for i, step := range over {
		if i == 5 {
			d.blame("and %d more", len(over)-i)
			break
		}
		d.blame("a %s took more than %s: %s", kind, limit, step)
	}
}

func (d *deployment) checkGoroutines() {
	for _, w := range d.processes() {
		n, err := 0, error(nil)
		if !eventually(30*time.Second, func() bool { // what a send or a request that was cut off waits for
			n, err = leftover.Goroutines(d.t.Context(), w.ops)
			return err == nil && n <= d.watches.goroutines+goroutinesLeft
		}) {
			d.blame("a process has %d goroutines, %d when it was idle (%v)", n, d.watches.goroutines, err)
		}
		d.t.Logf("a process has %d goroutines, %d when it was idle", n, d.watches.goroutines)
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
