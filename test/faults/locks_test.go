//go:build faults

package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// lockScenarios are locks of other programs that use the database.
func lockScenarios() []*scenario {
	return []*scenario{
		{
			name: "ForeignLock", fault: "a producer's transaction that enqueued an id stays open for 15 s, and others post that id",
			holds: "no other waits", users: 40, each: 20, goesOn: true, acceptsOn: true,
			without: protection{name: "short waits for locks", rewrites: []rewrite{{
				file: "internal/store/postgres/limited/beside.go", says: "'50ms'", instead: "'1h'",
			}}},
			inject: func(d *deployment) {
				before := d.timeAccepts(calmTime)
				d.beside(`SELECT pacer.enqueue('{"id":"order-7","user_id":"order-7","title":"order-7"}')`, func() {
					stop := d.insistOn("order-7")
					defer stop()
					d.blameLate(before, d.timeAccepts(15*time.Second))
				})
			},
		},
		{
			name: "MigrationBesideReader", fault: "`migrate down` and `migrate up` while a backup reads the outbox for 20 s",
			rewrites: []rewrite{{file: "migrations/90000_next.sql", instead: `-- +goose Up
ALTER TABLE pacer.outbox ADD COLUMN next boolean;
-- +goose Down
ALTER TABLE pacer.outbox DROP COLUMN next;
`}},
			holds: "no other waits", users: 40, each: 20, goesOn: true, acceptsOn: true,
			without: protection{name: "short waits for locks", rewrites: []rewrite{{
				file: "migrations/impatient.go", says: `waitForLock = "40ms"`, instead: `waitForLock = "1h"`,
			}}},
			prepare: func(d *deployment) { d.migrator = d.program },
			inject:  migrateBesideReader,
		},
	}
}

// beside does something while a transaction that has run a statement stays open.
func (d *deployment) beside(statement string, do func()) {
	conn, err := pgx.Connect(d.t.Context(), d.postgres.URL())
	if err != nil {
		d.fail("%v", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(d.t.Context())) }()
	tx, err := conn.Begin(d.t.Context())
	if err == nil {
		_, err = tx.Exec(d.t.Context(), statement)
	}
	if err != nil {
		d.fail("lock a row: %v", err)
	}
	do()
	if err := tx.Rollback(d.t.Context()); err != nil {
		d.fail("unlock the row: %v", err)
	}
}

// insistOn has producers post an id again and again, alone and among others.
func (d *deployment) insistOn(id string) (stop func()) {
	stopped := make(chan struct{})
	var producers sync.WaitGroup
	for p := range 8 {
		path, at := "/v1/notifications", d.workers[p%2].api
		body := fmt.Appendf(nil, `{"id":%q,"user_id":%q,"to":%q}`, id, id, d.target)
		if p%4 == 0 {
			path, body = "/v1/notifications/bulk", fmt.Appendf(nil, "[%s]", body)
		}
		producers.Go(func() {
			for {
				call(http.MethodPost, "http://"+at+path, body, nil)
				select {
				case <-stopped:
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		})
	}
	return func() { close(stopped); producers.Wait() }
}

const (
	// soonAccepted is how soon 99 of 100 requests have a response, soonDelivered how soon all are delivered.
	soonAccepted, soonDelivered = time.Second, 1500 * time.Millisecond
	// calmTime is for how long it is measured before what the machine does without a lock.
	calmTime = 5 * time.Second
)

// promptness is what became of requests: all, those that were refused or slow, and those that were delivered late.
type promptness struct {
	all, slow, late int
	slowest         time.Duration
}

// blameLate blames what a machine did not do before.
func (d *deployment) blameLate(before, m promptness) {
	d.note("%d unrelated requests, %d refused or slow, %d delivered late, %.2f s at most (before: %d, %d, %d, %.2f s)",
		m.all, m.slow, m.late, m.slowest.Seconds(), before.all, before.slow, before.late, before.slowest.Seconds())
	allowed := func(then int) int { return (m.all+99)/100 + 2*then*m.all/max(1, before.all) }
	if m.all < 20 || m.slow > allowed(before.slow) || m.late > allowed(before.late) {
		d.blame("of %d unrelated requests %d were refused or slow, and %d delivered late", m.all, m.slow, m.late)
	}
}

// timeAccepts accepts notifications of users of their own for a while, alone and many at once.
func (d *deployment) timeAccepts(duration time.Duration) promptness {
	type accept struct {
		keys []string
		at   time.Time
		took time.Duration
	}
	var mu sync.Mutex
	var accepts []accept
	refused := 0
	var producers sync.WaitGroup
	for p := range 4 {
		producers.Go(func() {
			until := time.Now().Add(duration)
			for i := 0; time.Now().Before(until); i++ {
				var items []item
				var keys []string
				for k := range 1 + p%2*9 {
					key := fmt.Sprintf("measured%d-%d-%d-%d", until.UnixNano(), p, i, k)
					keys = append(keys, key)
					items = append(items, item{"id": key, "title": key, "user_id": key, "to": d.target})
				}
				path, content := "/v1/notifications/bulk", any(items)
				if len(items) == 1 {
					path, content = "/v1/notifications", items[0]
				}
				body, _ := json.Marshal(content) // strings only
				status, took := call(http.MethodPost, "http://"+d.workers[i%2].api+path, body, nil)
				mu.Lock()
				if status < http.StatusBadRequest && status > 0 {
					accepts = append(accepts, accept{keys, time.Now(), took})
				} else {
					refused++
				}
				mu.Unlock()
				<-time.After(50 * time.Millisecond)
			}
		})
	}
	producers.Wait()
	<-time.After(soonDelivered)
	arrived := map[string]time.Time{}
	for _, one := range d.receiver.deliveries() {
		arrived[one.key] = one.arrived
	}
	m := promptness{all: len(accepts) + refused, slow: refused}
	for _, a := range accepts {
		if a.took > soonAccepted {
			m.slow++
		}
		m.slowest = max(m.slowest, a.took)
		if slices.ContainsFunc(a.keys, func(key string) bool {
			return arrived[key].IsZero() || arrived[key].Sub(a.at) > soonDelivered
		}) {
			m.late++
		}
	}
	return m
}

// migrateBesideReader takes the latest migration back and applies it again, while somebody reads what it changes.
func migrateBesideReader(d *deployment) {
	failed, before := make(chan error, 1), d.timeAccepts(calmTime)
	d.beside("LOCK TABLE pacer.outbox IN ACCESS SHARE MODE", func() {
		go func() {
			for _, way := range []string{"down", "up"} {
				out, err := exec.CommandContext(d.t.Context(), d.program, "migrate", way, "--database-url",
					d.databaseURL).CombinedOutput()
				if err != nil {
					failed <- fmt.Errorf("migrate %s: %w\n%s", way, err, out)
					return
				}
			}
			failed <- nil
		}()
		enqueued := make(chan string)
		go func() { enqueued <- d.enqueueFor(20 * time.Second) }()
		d.blameLate(before, d.timeAccepts(20*time.Second))
		if why := <-enqueued; why != "" {
			d.blame("%s", why)
		}
		select {
		case err := <-failed:
			d.blame("the migration did not wait for the reader: %v", err)
			failed <- err
		default:
		}
	})
	if err := <-failed; err != nil {
		d.fail("%v", err)
	}
}

// enqueueFor enqueues notifications in the database, as producers do within transactions of their own. It says what is
// wrong when one of them waits.
func (d *deployment) enqueueFor(duration time.Duration) (wrong string) {
	conn, err := pgx.Connect(d.t.Context(), d.postgres.URL())
	if err != nil {
		return err.Error()
	}
	defer func() { _ = conn.Close(context.WithoutCancel(d.t.Context())) }()
	until := time.Now().Add(duration)
	n, slow := 0, 0
	for ; time.Now().Before(until); n++ {
		ctx, cancel := context.WithTimeout(d.t.Context(), duration)
		began, key := time.Now(), fmt.Sprint("enqueued", n)
		_, err := conn.Exec(ctx, "SELECT pacer.enqueue(jsonb_build_object('title', $1::text, 'user_id', $1::text, 'to', $2::text))",
			key, d.target)
		cancel()
		if err != nil {
			return fmt.Sprintf("enqueue beside a migration: %v", err)
		}
		if time.Since(began) > soonAccepted {
			slow++
		}
		<-time.After(50 * time.Millisecond)
	}
	if slow*100 > n {
		return fmt.Sprintf("%d of %d were enqueued late", slow, n)
	}
	return ""
}
