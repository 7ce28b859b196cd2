package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/internal/store/postgres/columns"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// wantUnclaimed wants no notification to be one that nobody sends: each claimed row belongs to a caller.
func (w *world) wantUnclaimed(t *testing.T, callers int) {
	t.Helper()
	var sending, attempts int
	if err := w.pool.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE status = 'sending'), sum(attempts)
		FROM pacer.notifications`).Scan(&sending, &attempts); err != nil {
		t.Fatal(err)
	}
	if sending != callers || attempts != callers {
		t.Errorf("%d are claimed, with %d attempts; %d callers have one", sending, attempts, callers)
	}
}

// Postgres stands still for longer than a claim is tried, and then makes the claims that wait. No caller has left one
// behind: nobody would send it before its lease ends, and then it would count as a crash.
func TestNoClaimIsLeftBehind(t *testing.T) {
	t.Parallel()
	w := endWorld(t)
	const n = 20
	w.accept(t, "ada", "free", n)
	p := w.process(t, postgres.Config{ClaimPatience: time.Millisecond, StatementTimeout: time.Minute},
		func(*process) error { return nil })
	granted := w.ask(t, "ada", n).Grants
	if len(granted) != n {
		t.Fatalf("granted %d, want %d", len(granted), n)
	}
	tx, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE pacer.notifications"); err != nil {
		t.Fatal(err)
	}
	var callers atomic.Int64
	var claiming sync.WaitGroup
	for _, g := range granted {
		claiming.Go(func() {
			if ok, err := p.store.Claim(t.Context(), g); ok && err == nil {
				callers.Add(1)
			}
		})
	}
	left := make(chan struct{})
	go func() { claiming.Wait(); close(left) }()
	select {
	case <-left:
	case <-time.After(200 * time.Millisecond): // they wait for Postgres
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-left
	_ = p.store.Close()
	w.wantUnclaimed(t, int(callers.Load()))
}

// A claim whose reply is lost is undone: the notification is granted again at once, and no worker counts as crashed.
func TestAClaimOfUnknownOutcomeIsUndone(t *testing.T) {
	t.Parallel()
	loses := &lossy{}
	w := newWorldOn(t, redistest.Client(t), agenda.Config{MaxCrashes: storetest.MaxCrashes, Lease: time.Hour},
		postgrestest.URL(t), func(config *pgxpool.Config) {
			loses.dial = config.ConnConfig.DialFunc
			config.ConnConfig.DialFunc = loses.connect
		}, func(cfg *postgres.Config) { cfg.ClaimPatience = time.Nanosecond })
	w.accept(t, "ada", "slow", 1)
	granted := w.ask(t, "ada", 1).Grants
	claim := columns.Token(granted[0]) // only the claim names it; the id may be in a statement that is still under way
	loses.next.Store(&claim)
	if ok, err := w.store.Claim(t.Context(), granted[0]); ok || !errors.Is(err, errLossy) {
		t.Fatalf("claimed %t, %v; want its reply lost", ok, err)
	}
	w.wantUnclaimed(t, 0)
	if id := w.deliver(t, "ada"); id != "ada-slow-0" {
		t.Errorf("delivered %s", id)
	}
	var crashes, attempts int
	if err := w.pool.QueryRow(t.Context(), "SELECT crashes, attempts FROM pacer.notifications").Scan(&crashes,
		&attempts); err != nil || crashes != 0 || attempts != 1 {
		t.Errorf("%d crashes, %d attempts, %v; want one attempt", crashes, attempts, err)
	}
}

// Postgres takes so long to commit a claim that its statement's time-out comes first. Undoing the claim waits for the
// commit, which nobody can take back.
func TestAClaimThatIsBeingCommittedIsUndone(t *testing.T) {
	t.Parallel()
	w := endWorld(t)
	w.accept(t, "ada", "slow", 1)
	granted := w.ask(t, "ada", 1).Grants
	tx, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `UPDATE pacer.notifications SET status = 'sending', generation = generation + 1,
		attempts = attempts + 1, token = $1, claimed_until = now() + interval '1 hour'`,
		columns.Token(granted[0])); err != nil {
		t.Fatal(err)
	}
	undone := make(chan error, 1)
	go func() { undone <- w.store.Unclaim(t.Context(), granted[0]) }()
	w.await(t, "undoing waits for the claim", func() bool {
		var waiting int
		err := w.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
		return err == nil && waiting == 1 || len(undone) > 0
	})
	if err := errors.Join(tx.Commit(t.Context()), <-undone); err != nil {
		t.Fatal(err)
	}
	w.wantUnclaimed(t, 0)
}

var errLossy = errors.New("the connection broke")

// lossy is a network that loses the reply to the next statement with a text, once.
type lossy struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
	next atomic.Pointer[string]
}

func (l *lossy) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := l.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &lossyConn{Conn: conn, of: l}, nil
}

type lossyConn struct {
	net.Conn

	of     *lossy
	losing atomic.Bool
}

func (c *lossyConn) Write(b []byte) (int, error) {
	text := c.of.next.Load()
	if text != nil && bytes.Contains(b, []byte(*text)) && c.of.next.CompareAndSwap(text, nil) {
		c.losing.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *lossyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b) // the statement has had its effect
	if c.losing.Load() {
		return 0, errLossy
	}
	return n, err
}
