package postgres_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// beforeScripts is called before each script that a client sends. When it returns an error, the script fails with that.
type beforeScripts func(ctx context.Context, command goredis.Cmder) error

// DialHook implements [goredis.Hook].
func (beforeScripts) DialHook(next goredis.DialHook) goredis.DialHook { return next }

// ProcessHook implements [goredis.Hook].
func (b beforeScripts) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, command goredis.Cmder) error {
		if strings.HasPrefix(command.Name(), "eval") {
			if err := b(ctx, command); err != nil {
				command.SetErr(err)
				return err
			}
		}
		return next(ctx, command)
	}
}

// ProcessPipelineHook implements [goredis.Hook].
func (b beforeScripts) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, commands []goredis.Cmder) error {
		for _, command := range commands {
			if err := b(ctx, command); err != nil {
				for _, c := range commands {
					c.SetErr(err)
				}
				return err
			}
		}
		return next(ctx, commands)
	}
}

// process is another process of a world's deployment, with connections of its own.
type process struct {
	pool  *pgxpool.Pool
	store *postgres.Store
}

// process starts one that calls before for each of its scripts. Its statements have a minute unless cfg says otherwise.
func (w *world) process(t *testing.T, cfg postgres.Config, before func(p *process) error) *process {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(t.Context(), w.pool.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	p := &process{pool: pool}
	options := *w.redis.Options()
	options.ContextTimeoutEnabled = true
	client := goredis.NewClient(&options)
	t.Cleanup(func() { _ = client.Close() }) // every command has its reply
	client.AddHook(beforeScripts(func(context.Context, goredis.Cmder) error { return before(p) }))
	agendas, err := agenda.New(client, agenda.Config{
		Partitions: storetest.Partitions, Settings: storetest.Settings, Lease: storetest.Lease, Guarded: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Log = slog.New(slog.DiscardHandler)
	cfg.AcceptTimeout = cmp.Or(cfg.AcceptTimeout, time.Minute)
	cfg.StatementTimeout = cmp.Or(cfg.StatementTimeout, time.Minute)
	p.store = postgres.New(pool, agendas, cfg)
	t.Cleanup(func() { _ = p.store.Close() })
	return p
}

// errDied is what every command of a dead process returns.
var errDied = errors.New("the process has died")

// diesBeforePut is a process that dies once Postgres has committed what it accepts, before Redis learns of any of it.
func (w *world) diesBeforePut(t *testing.T) *process {
	t.Helper()
	return w.process(t, postgres.Config{}, func(p *process) error {
		p.pool.Close()
		return errDied
	})
}

func batchOf(user, category string, n int) []*notification.Notification {
	var batch []*notification.Notification
	for i := range n {
		batch = append(batch, &notification.Notification{
			ID: fmt.Sprintf("%s-%s-%03d", user, category, i), UserID: user, Category: category,
			Channel:  notification.ChannelLog,
			Priority: notification.PriorityNormal,
		})
	}
	return batch
}

// later makes everything in the database older, as if that time had passed since it was accepted.
func (w *world) later(t *testing.T, by time.Duration) {
	t.Helper()
	w.exec(t, "UPDATE pacer.notifications SET accepted_at = accepted_at - $1::interval", by)
	w.exec(t, "UPDATE pacer.outbox SET due_at = due_at - $1::interval", by)
}

// A commit stalls while a relay runs, and while others are accepted and placed. It is carried over all the same.
func TestACommitThatStallsIsNotMissed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	tx, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }() // after the commit it does nothing
	const stalling = `
		INSERT INTO pacer.notifications (id, user_id, category, channel, priority, accepted_at)
		SELECT 'stalled-' || i, 'ada', 'free', 'log', 3, now() - interval '5 s' FROM generate_series(1, 20) i`
	if _, err := tx.Exec(t.Context(), stalling); err != nil {
		t.Fatal(err)
	}
	w.accept(t, "bob", "free", 5)
	w.later(t, 5*time.Second)
	w.round(t)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.round(t) // at once after the commit: the age of the row does not matter
	w.overdue(t)
	w.round(t)
	got := w.deliverAll(t)
	stalled := 0
	for _, id := range got {
		if strings.HasPrefix(id, "stalled-") {
			stalled++
		}
	}
	if stalled != 20 {
		t.Errorf("delivered %d of the 20 whose commit stalled", stalled)
	}
	w.wantNothingLeft(t)
}

// overdue makes all of the outbox due.
func (w *world) overdue(t *testing.T) {
	t.Helper()
	w.exec(t, "UPDATE pacer.outbox SET due_at = due_at - interval '5 s'")
}

// wantNothingLeft checks that nothing waits to be carried over, but for what has ended: the relay takes that up later.
func (w *world) wantNothingLeft(t *testing.T) {
	t.Helper()
	w.await(t, "nothing is left in the outbox", func() bool {
		var left int
		var ended bool
		if err := w.pool.QueryRow(t.Context(), "SELECT count(*), bool_or(key LIKE '~%') IS TRUE FROM pacer.outbox").Scan(&left, &ended); err != nil {
			t.Fatal(err)
		}
		if ended {
			w.overdue(t)
			w.round(t)
		}
		return left == 0
	})
}

// await waits until a condition holds.
func (w *world) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(time.Minute); !ok(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("never came: %s", what)
		}
	}
}

// A notification that is accepted while Redis works leaves no row in the outbox, alone or with many others.
func TestWhatHasReachedRedisLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	w.accept(t, "ada", "free", 1500) // more than one row of ids
	w.accept(t, "bob", "free", 1)
	w.wantNothingLeft(t)
}

// Two processes accept the same notifications in different order, as two consumers of a topic do after a rebalance.
// Neither waits for a row of the other while the other waits for one of its own.
func TestTheSameIDsInAnyOrderAreNoDeadlock(t *testing.T) {
	t.Parallel()
	w := endWorld(t)
	w.exec(t, `CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN PERFORM pg_sleep(0.3); RETURN NEW; END'`)
	w.exec(t, "CREATE TRIGGER linger BEFORE INSERT ON pacer.notifications FOR EACH ROW EXECUTE FUNCTION linger()")
	other := w.process(t, postgres.Config{AcceptTimeout: time.Minute}, func(*process) error { return nil })
	there, back := batchOf("ada", "free", 3), batchOf("ada", "free", 3)
	slices.Reverse(back)
	var accepting sync.WaitGroup
	var fresh atomic.Int32
	for store, batch := range map[*postgres.Store][]*notification.Notification{w.store: there, other.store: back} {
		accepting.Go(func() {
			accepted, err := store.Accept(t.Context(), batch)
			if err != nil {
				t.Errorf("accept: %v", err)
			}
			for _, a := range accepted {
				if !a.Known {
					fresh.Add(1)
				}
			}
		})
	}
	accepting.Wait()
	if n := fresh.Load(); n != 3 {
		t.Errorf("%d were new, want 3", n)
	}
}
