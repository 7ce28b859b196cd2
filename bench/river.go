package main

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// job is one notification for River: its user, and its text.
type job struct {
	User string `json:"user"`
	N    string `json:"n"`
}

// Kind implements river.JobArgs.
func (job) Kind() string { return "job" }

// worker counts the jobs that it has done. With a limiter, it asks whether a job may go, and puts off what may not.
type worker struct {
	river.WorkerDefaults[job]
	done     atomic.Int64
	n        int64
	finished chan struct{}

	limiter *redis.Client
	gap     time.Duration
}

// Work implements river.Worker.
func (w *worker) Work(ctx context.Context, j *river.Job[job]) error {
	if w.limiter != nil {
		wait, err := askClassic(ctx, w.limiter, j.Args.User, strconv.FormatInt(j.ID, 10), 100, time.Minute, w.gap)
		if err != nil {
			return err
		}
		if wait > 0 {
			return river.JobSnooze(wait)
		}
	}
	if w.done.Add(1) == w.n {
		close(w.finished)
	}
	return nil
}

// newRiver makes a client, which is not started, on a database that it prepares.
func newRiver(ctx context.Context, database string, work *worker) (*river.Client[pgx.Tx], *pgxpool.Pool, error) {
	pool, err := newPool(ctx, database)
	if err != nil {
		return nil, nil, err
	}
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, work)
	client, err := river.NewClient(driver, &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 256}}, Workers: workers,
		// As many at once as all others here, and fetched as fast as River allows itself in its own benchmark.
		FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		pool.Close()
	}
	return client, pool, err
}

// newPool connects a peer to Postgres, with as many connections as pacer has.
func newPool(ctx context.Context, database string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(database)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 12
	return pgxpool.NewWithConfig(ctx, config)
}

// withRiver runs do on a River client on a server of its own. With a gap, its worker asks a limiter on a Redis server
// of its own.
func withRiver(ctx context.Context, o options, gap time.Duration,
	do func(*river.Client[pgx.Tx], *worker, *meter) (sample, error),
) (sample, error) {
	work := &worker{n: int64(o.n), finished: make(chan struct{}), gap: gap}
	measure := func(limiter *server) (sample, error) {
		return withPostgres(ctx, limiter, func(database string, m *meter) (sample, error) {
			client, pool, err := newRiver(ctx, database, work)
			if err != nil {
				return sample{}, err
			}
			defer pool.Close()
			return do(client, work, m)
		})
	}
	if gap == 0 {
		return measure(nil)
	}
	return withRedis(func(limiter *server, _ *meter) (sample, error) {
		work.limiter = limiter.client
		return measure(limiter)
	})
}

// riverInsert inserts n jobs, one of each user, in batches of 1,000.
func riverInsert(ctx context.Context, client *river.Client[pgx.Tx], n int) error {
	for from := 0; from < n; from += 1000 {
		batch := make([]river.InsertManyParams, min(1000, n-from))
		for i := range batch {
			batch[i].Args = job{User: "user-" + strconv.Itoa(from+i), N: strconv.Itoa(from + i)}
		}
		if _, err := client.InsertManyFast(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

func riverAccept(ctx context.Context, o options) (sample, error) {
	return withRiver(ctx, o, 0, func(client *river.Client[pgx.Tx], _ *worker, m *meter) (sample, error) {
		return m.run(ctx, o.n, func() error { return riverInsert(ctx, client, o.n) })
	})
}

func riverDispatch(ctx context.Context, o options) (sample, error) { return riverWork(ctx, o, 0) }

// riverByHand throttles as one would by hand: each job asks a rolling limiter on Redis, for a limit and a gap, and is
// snoozed for the time left. Here all may go at once.
func riverByHand(ctx context.Context, o options) (sample, error) {
	return riverWork(ctx, o, time.Millisecond)
}

// riverWork inserts everything before the client works.
func riverWork(ctx context.Context, o options, gap time.Duration) (sample, error) {
	return withRiver(ctx, o, gap, func(client *river.Client[pgx.Tx], work *worker, m *meter) (sample, error) {
		if err := riverInsert(ctx, client, o.n); err != nil {
			return sample{}, err
		}
		measured, err := m.run(ctx, o.n, func() error {
			if err := client.Start(ctx); err != nil {
				return err
			}
			select {
			case <-work.finished:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		return measured, errors.Join(err, client.Stop(context.WithoutCancel(ctx)))
	})
}
