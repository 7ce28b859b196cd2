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
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/pacer-notify/pacer/test/postgrestest"
)

// startPostgres runs a server that loses nothing: fsync and synchronous_commit are on.
func startPostgres() (url string, stop func() error, err error) {
	return postgrestest.StartUnowned("fsync=on", "synchronous_commit=on", "shared_buffers=256MB", "max_wal_size=4GB")
}

// withDurable runs do on a process in the durable set-up, on servers of its own.
func withDurable(ctx context.Context, do func(*pacer) (time.Duration, error), n int) (float64, error) {
	database, stopDatabase, err := startPostgres()
	if err != nil {
		return 0, err
	}
	redis, err := startRedis()
	if err != nil {
		return 0, errors.Join(err, stopDatabase())
	}
	defer redis.stop()
	p, err := startPacer(ctx, redis.url, database, policy)
	if err != nil {
		return 0, errors.Join(err, stopDatabase())
	}
	took, err := do(p)
	return float64(n) / took.Seconds(), errors.Join(err, p.stop(), stopDatabase())
}

// durableDispatch measures delivering: everything is accepted before the workers start, as for the peer.
func durableDispatch(ctx context.Context, o options) (float64, error) {
	return withDurable(ctx, func(p *pacer) (time.Duration, error) {
		if err := errors.Join(p.ready(ctx), p.accept(ctx, o.n, oneEach)); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := p.Start(ctx); err != nil {
			return 0, err
		}
		_, err := p.await(ctx, int64(o.n))
		return time.Since(start), err
	}, o.n)
}

// durableAccept measures accepting, wake-ups in the queue included; the workers of the process are not started.
func durableAccept(ctx context.Context, o options) (float64, error) {
	return withDurable(ctx, func(p *pacer) (time.Duration, error) {
		if err := p.ready(ctx); err != nil {
			return 0, err
		}
		start := time.Now()
		err := p.accept(ctx, o.n, oneEach)
		return time.Since(start), err
	}, o.n)
}

// job does nothing.
type job struct {
	N string `json:"n"`
}

// Kind implements river.JobArgs.
func (job) Kind() string { return "job" }

// counter is a worker that counts.
type counter struct {
	river.WorkerDefaults[job]
	done     *atomic.Int64
	n        int64
	finished chan struct{}
}

// Work implements river.Worker.
func (c *counter) Work(context.Context, *river.Job[job]) error {
	if c.done.Add(1) == c.n {
		close(c.finished)
	}
	return nil
}

// withRiver runs do on a River client on a server of its own.
func withRiver(
	ctx context.Context, o options, do func(*river.Client[pgx.Tx], *counter) (time.Duration, error),
) (float64, error) {
	database, stopDatabase, err := startPostgres()
	if err != nil {
		return 0, err
	}
	config, err := pgxpool.ParseConfig(database)
	if err != nil {
		return 0, errors.Join(err, stopDatabase())
	}
	config.MaxConns = 12 // as many as pacer has
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return 0, errors.Join(err, stopDatabase())
	}
	defer func() { _ = stopDatabase() }() // a temporary server
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return 0, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return 0, err
	}
	work := &counter{done: &atomic.Int64{}, n: int64(o.n), finished: make(chan struct{})}
	workers := river.NewWorkers()
	river.AddWorker(workers, work)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 256}}, Workers: workers,
		// As many at once as all others here, and fetched as fast as River allows itself in its own benchmark.
		FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return 0, err
	}
	took, err := do(client, work)
	return float64(o.n) / took.Seconds(), err
}

// riverInsert inserts n jobs in batches of 1,000.
func riverInsert(ctx context.Context, client *river.Client[pgx.Tx], n int) error {
	for from := 0; from < n; from += 1000 {
		var batch []river.InsertManyParams
		for i := from; i < min(n, from+1000); i++ {
			batch = append(batch, river.InsertManyParams{Args: job{N: strconv.Itoa(i)}})
		}
		if _, err := client.InsertManyFast(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

func riverAccept(ctx context.Context, o options) (float64, error) {
	return withRiver(ctx, o, func(client *river.Client[pgx.Tx], _ *counter) (time.Duration, error) {
		start := time.Now()
		err := riverInsert(ctx, client, o.n)
		return time.Since(start), err
	})
}

func riverDispatch(ctx context.Context, o options) (float64, error) {
	return withRiver(ctx, o, func(client *river.Client[pgx.Tx], work *counter) (time.Duration, error) {
		if err := riverInsert(ctx, client, o.n); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := client.Start(ctx); err != nil {
			return 0, err
		}
		select {
		case <-work.finished:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		took := time.Since(start)
		return took, client.Stop(ctx)
	})
}
