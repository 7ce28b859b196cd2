package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/test/postgrestest"
)

// withPostgres runs do on a server of its own that loses nothing: fsync and synchronous_commit are on. The meter
// measures a Redis server too, unless that is nil.
func withPostgres(ctx context.Context, redis *server, do func(database string, m *meter) (sample, error),
) (sample, error) {
	database, stop, err := postgrestest.StartUnowned("fsync=on", "synchronous_commit=on", "shared_buffers=256MB",
		"max_wal_size=4GB")
	if err != nil {
		return sample{}, err
	}
	defer func() { _ = stop() }() // a temporary server
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return sample{}, err
	}
	defer func() { _ = conn.Close(ctx) }()
	return do(database, &meter{redis: redis, database: conn})
}

// withDurable runs do on a process in the durable set-up, on servers of its own.
func withDurable(ctx context.Context, do func(*pacer, *meter) (sample, error),
	change ...func(*settings.Resolved),
) (sample, error) {
	return withRedis(func(redis *server, _ *meter) (sample, error) {
		return withPostgres(ctx, redis, func(database string, m *meter) (sample, error) {
			p, err := startPacer(ctx, redis.url, database, policy, change...)
			if err != nil {
				return sample{}, err
			}
			if err := p.BuildPartitions(ctx); err != nil { // as the first process of a deployment does
				return sample{}, errors.Join(err, p.stop())
			}
			measured, err := do(p, m)
			return measured, errors.Join(err, p.stop())
		})
	})
}

// durableDispatch measures delivering: everything is accepted before the workers start, as for the peer.
func durableDispatch(ctx context.Context, o options) (sample, error) {
	return withDurable(ctx, func(p *pacer, m *meter) (sample, error) {
		if err := p.accept(ctx, o.n, oneEach); err != nil {
			return sample{}, err
		}
		return m.run(ctx, o.n, func() error { return p.deliver(ctx, o.n) })
	})
}

// durableAccept measures accepting, wake-ups in the queue included; the workers of the process are not started.
func durableAccept(ctx context.Context, o options) (sample, error) {
	return withDurable(ctx, func(p *pacer, m *meter) (sample, error) {
		return m.run(ctx, o.n, func() error { return p.accept(ctx, o.n, oneEach) })
	})
}
