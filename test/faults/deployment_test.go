//go:build faults

package faults_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// policy lets 2.5 a second of each user go.
const policy = `
version: 1
categories:
  default:
    limits: [{max: 5, per: 2s}, {max: 15, per: 6s}]
    min_gap: 20ms
retry: {max_attempts: 10, min_backoff: 200ms, max_backoff: 2s}
`

// perSecond is what the policy lets a user have over long.
const perSecond = 2.5

// deployment is dispatcher processes on servers of the test's own.
type deployment struct {
	t        *testing.T
	scenario *scenario

	// What a scenario may set before the processes start.
	redis       *redistest.Server
	redisURL    string
	postgres    *postgrestest.Server // nil where Redis keeps the store
	databaseURL string
	receiver    *receiver
	target      string // where webhooks go
	program     string
	migrator    string // a program that makes the schema, where that is not this version's
	policy      string
	clocks      string // the files that tell how wrong clocks are
	skewable    bool   // the workers' clocks can be set wrong
	env         []string

	workers []*worker
	links   map[string]*link // those that a test made, by the pair that they stand between
	idle    int              // goroutines that a process has when it is ready

	mu       sync.Mutex
	accepted []string // keys
	// notAccepted is why the latest request that failed did.
	notAccepted string
	faults      []string // what was not as it must be
	notes       []string // figures of the scenario's own, for its row
	inFlight    int      // deliveries that the fault met on their way: they may come twice
}

// processes are those that run or are about to.
func (d *deployment) processes() []*worker {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.workers)
}

// put has a process take another's place.
func (d *deployment) put(i int, w *worker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.workers[i] = w
}

// broken ends a scenario that can't go on.
type broken struct{ why string }

// fail ends the scenario.
func (d *deployment) fail(format string, args ...any) { panic(broken{fmt.Sprintf(format, args...)}) }

// blame remembers something that is not as it must be; the scenario goes on.
func (d *deployment) blame(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, fmt.Sprintf(format, args...))
}

// note adds a figure to the scenario's row.
func (d *deployment) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notes = append(d.notes, fmt.Sprintf(format, args...))
}

// deploy starts servers and processes as a scenario wants them.
func deploy(t *testing.T, s *scenario) *deployment {
	t.Helper()
	d := &deployment{t: t, scenario: s, receiver: newReceiver(t, s.slow), program: program, links: map[string]*link{}}
	d.target = d.receiver.server.URL
	d.policy = filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(d.policy, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	rewrites := s.rewrites
	if red() {
		rewrites = slices.Concat(rewrites, s.without.rewrites)
	}
	if len(rewrites) > 0 {
		d.program = d.rewritten(rewrites)
	}
	if red() && s.without.prepare != nil {
		s.without.prepare(d)
	}
	if s.prepare != nil {
		s.prepare(d)
	}
	if d.redisURL == "" {
		d.redis = redistest.Start(t)
		d.redisURL = d.redis.URL()
	}
	if s.store == inPostgres && d.postgres == nil {
		d.postgres = postgrestest.Start(t)
	}
	if d.postgres != nil {
		if d.databaseURL == "" {
			d.databaseURL = d.postgres.URL()
		}
		if d.migrator != "" {
			d.migrate(d.migrator, "up")
		} else {
			d.postgres.Migrate()
		}
	}
	if s.between != nil {
		s.between(d)
	}
	d.env = append(append(os.Environ(), d.env...), "REDIS_URL="+d.redisURL, "DATABASE_URL="+d.databaseURL)
	if red() && !s.without.late {
		d.env = append(d.env, "FAULTS_MUTATIONS="+s.without.mutations)
	}
	for range 2 {
		d.workers = append(d.workers, d.start())
	}
	if s.ready != nil {
		s.ready(d)
	}
	d.countGoroutines()
	return d
}

// await waits until something is so, and ends the scenario when it never is.
func (d *deployment) await(what string, patience time.Duration, ok func() bool) {
	d.t.Helper()
	if !eventually(patience, ok) {
		d.fail("never came within %s: %s", patience, what)
	}
}

func eventually(patience time.Duration, ok func() bool) bool {
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			return false
		}
		<-time.After(50 * time.Millisecond)
	}
	return true
}

// open counts what has not ended; -1 while nobody can tell.
func (d *deployment) open() int {
	if d.postgres != nil {
		n, err := d.query("SELECT count(*) FROM pacer.notifications WHERE ended_at IS NULL")
		if err != nil {
			return -1
		}
		return n
	}
	s, ok := d.stats()
	if !ok {
		return -1
	}
	return s.Queued + s.Scheduled + s.Deferred + s.Retrying + s.Sending
}

// stats is what the API says of the whole deployment.
type stats struct{ Queued, Scheduled, Deferred, Retrying, Sending int }

// stats asks the first process that responds.
func (d *deployment) stats() (s stats, ok bool) {
	for _, w := range d.processes() {
		if ask("http://"+w.api+"/v1/stats", &s) {
			return s, true
		}
	}
	return stats{}, false
}

// query asks the database of the store for a number.
func (d *deployment) query(sql string, args ...any) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, d.postgres.URL())
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close(ctx) }() // the reply is what counts
	var n int
	return n, conn.QueryRow(ctx, sql, args...).Scan(&n)
}

// sending is how many deliveries are on their way, as the store has it.
func (d *deployment) sending() int {
	if d.postgres != nil {
		n, err := d.query("SELECT count(*) FROM pacer.notifications WHERE status = 'sending'")
		if err != nil {
			d.fail("count what is being sent: %v", err)
		}
		return n
	}
	s, _ := d.stats()
	return s.Sending
}
