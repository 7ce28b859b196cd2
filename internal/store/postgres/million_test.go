//go:build accept

package postgres_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/internal/store/postgres/rebuild"
	"github.com/pacer-notify/pacer/internal/store/postgres/relay"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// A world of a million rows: of 10,000 users, 5,000 failed, 100,000 scheduled, 895,000 delivered within the last day.
func TestAMillionRows(t *testing.T) {
	t.Parallel()
	settings := func(string, string) agenda.Settings {
		return agenda.Settings{MaxDefer: 48 * time.Hour, Plan: throttle.Plan{Rules: []throttle.Rule{
			{Max: 60, Per: 24 * time.Hour}, {Max: 80, Per: 24 * time.Hour, Kind: throttle.KindCap},
		}}}
	}
	w := newWorldWith(t, redistest.Client(t), agenda.Config{MaxCrashes: 1000, Settings: settings})
	w.exec(t, "SET session_replication_role = replica; "+`INSERT INTO pacer.notifications
		(id, user_id, category, channel, target, title, body, priority, accepted_at, status, reason, ended_at, send_at)
		SELECT 'n' || i, 'user' || i % 10000, CASE WHEN i % 1000 = 7 THEN 'rare' ELSE 'chat' END, 'webhook',
			'https://host' || i % 50 || '.example/hook', 'Order ' || i, repeat('x', 200), 3,
			now() - i * interval '1 second', CASE WHEN i % 200 = 0 THEN 'failed' WHEN i % 10 = 3 THEN 'waiting'
			ELSE 'delivered' END, CASE WHEN i % 200 = 0 THEN 'permanent: 400' WHEN i % 10 = 3 THEN '' ELSE 'delivered' END,
			CASE WHEN i % 10 <> 3 THEN now() - i * interval '1 second' END,
			CASE WHEN i % 10 = 3 THEN now() + interval '1 day' END
		FROM generate_series(1, 1000000) i;
		INSERT INTO pacer.attempts (notification_id, generation, attempt, user_id, category, admitted_at, outcome)
		SELECT id, 1, 1, user_id, category, (extract(epoch FROM now() - (now() - accepted_at) / 12) * 1000000)::bigint,
			'delivered' FROM pacer.notifications WHERE status = 'delivered';
		INSERT INTO pacer.tallies (hour, category, delivered)
		SELECT date_trunc('hour', now()) - i % 700 * interval '1 hour', 'category' || i / 700 % 20, 1
			FROM generate_series(1, 1000000) i;
		SET session_replication_role = origin`)
	w.exec(t, "VACUUM ANALYZE pacer.notifications, pacer.attempts, pacer.tallies")
	w.exec(t, "CHECKPOINT") // or the first pages also write what the insertion left
	listAMillion(t, w)
	w.runJobsOverAMillion(t)
}

// runJobsOverAMillion has each job that goes through all rows do so. None keeps them in memory, or asks for many in one
// statement.
func (w *world) runJobsOverAMillion(t *testing.T) {
	t.Helper()
	config, reads := w.pool.Config(), &finds{of: "AS f(user_id, since, place)"}
	config.ConnConfig.Tracer = reads
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	store := postgres.New(pool, w.agendas, postgres.Config{Log: slog.New(slog.DiscardHandler)})
	defer func() { _ = store.Close() }()
	now, day := time.Now(), throttle.Rule{Max: 60, Per: 24 * time.Hour}
	relay := relay.New(store.Stores, relay.Config{
		Retention: time.Hour, Windows: func(string) time.Duration { return day.Per },
	})
	if n := storetest.CheckMany(t, store, now.Add(-24*time.Hour), now, day); n < 100_000 {
		t.Errorf("the checker found %d violations", n)
	}
	var most reading
	for _, one := range reads.take()[:5] {
		most.add(one.explain(t, w.pool))
	}
	if most.rows > 50_000 {
		t.Errorf("a statement of the checker reads %d rows", most.rows)
	}
	differences, removed := 0, int64(0)
	for _, job := range []struct {
		name string
		do   func() error
	}{
		{name: "rebuild", do: func() error { _, err := relay.Rebuild(t.Context()); return err }},
		{name: "verify", do: func() error {
			return relay.Verify(t.Context(), func(rebuild.Difference) error { differences++; return nil })
		}},
		{name: "history", do: func() error {
			hours, err := store.History(t.Context(), now.Add(-30*24*time.Hour), now)
			if len(hours) != 14_000 {
				t.Errorf("the history has %d hours and categories", len(hours))
			}
			return err
		}},
		{name: "purge", do: func() (err error) {
			w.exec(t, "UPDATE pacer.notifications SET ended_at = accepted_at - interval '2 days' WHERE ended_at IS NOT NULL")
			removed, err = relay.Purge(t.Context())
			return err
		}},
	} {
		storetest.WantSmallHeap(t, job.name, func() {
			if err := job.do(); err != nil {
				t.Errorf("%s: %v", job.name, err)
			}
		})
		t.Logf("the slowest statement took %s: %.300s", reads.took.Round(time.Millisecond), reads.slowest.sql)
		reads.took = 0
	}
	if differences > 0 || removed < 800_000 {
		t.Errorf("%d differences were found, %d removed", differences, removed)
	}
}

// Pages of a million rows for each kind of filter: the first 20, and those in the middle and at the end. The test
// asserts how many rows and pages of the database one reads, which no busy machine changes, and reports how long the
// median and the slowest took.
func listAMillion(t *testing.T, w *world) {
	t.Helper()
	finds := &finds{of: "AS found"}
	config := w.pool.Config()
	config.ConnConfig.Tracer = finds
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	store := postgres.New(pool, w.agendas, postgres.Config{})
	defer func() { _ = store.Close() }()
	failed := []notification.Status{notification.StatusFailed, notification.StatusExpired}
	for _, tc := range []struct {
		name   string
		filter notification.Filter
		// rows is how many rows a page may look at, pages how many pages of the database.
		rows, pages int
	}{
		{name: "all", rows: 110, pages: 30},
		{name: "user", filter: notification.Filter{UserID: "user7"}, rows: 110, pages: 130},
		{name: "failed", filter: notification.Filter{Statuses: failed}, rows: 110, pages: 130},
		{
			name:   "failed, host and reason",
			filter: notification.Filter{Statuses: failed, Host: "host0.example", Reason: "permanent"},
			rows:   110, pages: 130,
		},
		{
			name: "failed, rare category", filter: notification.Filter{Statuses: failed, Category: "rare"},
			rows: 1260, pages: 1330,
		},
		{
			name: "delivered, rare category", filter: notification.Filter{
				Statuses: []notification.Status{notification.StatusDelivered}, Category: "rare",
			},
			rows: 5010, pages: 500,
		},
		{name: "host", filter: notification.Filter{Host: "host7.example"}, rows: 5010, pages: 500},
		{name: "host that none has", filter: notification.Filter{Host: "none.example"}, rows: 5010, pages: 500},
		{name: "reason that none has", filter: notification.Filter{Reason: "transient"}, rows: 5010, pages: 500},
		{name: "text", filter: notification.Filter{Text: "order 77777"}, rows: 5010, pages: 500},
		{name: "text that none has", filter: notification.Filter{Text: "nothing like it"}, rows: 5010, pages: 500},
		{
			name:   "scheduled",
			filter: notification.Filter{Statuses: []notification.Status{notification.StatusScheduled}},
			rows:   110, pages: 130,
		},
		{
			name:   "deferred, of which there are none",
			filter: notification.Filter{Statuses: []notification.Status{notification.StatusDeferred}},
			rows:   110, pages: 130,
		},
		{
			name: "everything at once", filter: notification.Filter{
				UserID: "user7", Statuses: failed, Category: "rare", Channel: "webhook", Reason: "p",
				Host: "host7.example", Text: "order", Since: time.Now().Add(-300 * time.Hour),
			},
			rows: 1260, pages: 1330,
		},
	} {
		for _, part := range []struct {
			name string
			ago  time.Duration
		}{
			{name: "first"}, {name: "middle", ago: 500_000 * time.Second}, {name: "last", ago: 999_000 * time.Second},
		} {
			f := tc.filter
			f.Limit = 100
			if part.ago > 0 {
				f.Until = time.Now().Add(-part.ago)
			}
			var all []time.Duration
			var reads reading
			listed, items := 0, 0
			for ; listed < 20 && (listed == 0 || f.Cursor != ""); listed++ {
				began := time.Now()
				page, err := store.List(t.Context(), f)
				if err != nil {
					t.Fatal(err)
				}
				took := time.Since(began)
				for _, find := range finds.take() {
					reads.add(find.explain(t, w.pool))
				}
				all, items, f.Cursor = append(all, took), items+len(page.Items), page.Next
			}
			slices.Sort(all)
			t.Logf("%-33s %-6s %2d pages, %4d items, at most %4d rows in %4d pages of the database, median %s, slowest %s",
				tc.name, part.name, listed, items, reads.rows, reads.pages,
				all[len(all)/2].Round(100*time.Microsecond), all[len(all)-1].Round(100*time.Microsecond))
			if reads.rows > tc.rows || reads.pages > tc.pages {
				t.Errorf("%s, %s: a page looks at %d rows in %d pages of the database, want at most %d in %d",
					tc.name, part.name, reads.rows, reads.pages, tc.rows, tc.pages)
			}
		}
	}
}

// reading is the most that statements read.
type reading struct{ rows, pages int }

// add counts a statement that was run.
func (r *reading) add(ran plan) {
	r.rows = max(r.rows, ran.rowsRead())
	r.pages = max(r.pages, ran.SharedHits+ran.SharedReads)
}

// rowsRead is how many rows of tables the statement read.
func (p plan) rowsRead() int {
	if len(p.Plans) == 0 {
		return p.Rows
	}
	rows := 0
	for _, below := range p.Plans {
		rows += below.rowsRead()
	}
	return rows
}

// find is a statement.
type find struct {
	sql  string
	args []any
}

// finds remembers those that a store runs, by a part of their text, and the slowest of all.
type finds struct {
	of      string
	mu      sync.Mutex
	all     []find
	slowest find
	took    time.Duration
}

type statementKey struct{}

// begun is a statement, and when it began.
type begun struct {
	find
	at time.Time
}

func (f *finds) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	f.mu.Lock()
	defer f.mu.Unlock()
	if strings.Contains(q.SQL, f.of) {
		f.all = append(f.all, find{sql: q.SQL, args: q.Args})
	}
	return context.WithValue(ctx, statementKey{}, begun{find{sql: q.SQL}, time.Now()})
}

func (f *finds) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one, ok := ctx.Value(statementKey{}).(begun); ok && time.Since(one.at) > f.took {
		f.slowest, f.took = one.find, time.Since(one.at)
	}
}

// take returns those since the last call.
func (f *finds) take() []find {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.all
	f.all = nil
	return all
}

// explain runs it again, and gives its plan with what it read.
func (f find) explain(t *testing.T, pool *pgxpool.Pool) plan {
	t.Helper()
	var text []byte
	if err := pool.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "+f.sql, f.args...).
		Scan(&text); err != nil {
		t.Fatal(err)
	}
	var ran []struct{ Plan plan }
	if err := json.Unmarshal(text, &ran); err != nil {
		t.Fatal(err)
	}
	return ran[0].Plan
}
