package main

import (
	"context"
	"errors"

	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/test/postgrestest"
)

// startPostgres runs a server that loses nothing: fsync and synchronous_commit are on.
func startPostgres() (url string, stop func() error, err error) {
	return postgrestest.StartUnowned("fsync=on", "synchronous_commit=on", "shared_buffers=256MB", "max_wal_size=4GB")
}

// withDurable runs do on a process in the durable set-up, on servers of its own.
func withDurable(ctx context.Context, do func(*pacer, *meter) (sample, error),
	change ...func(*settings.Resolved),
) (sample, error) {
	database, stopDatabase, err := startPostgres()
	if err != nil {
		return sample{}, err
	}
	defer func() { _ = stopDatabase() }() // a temporary server
	redis, err := startRedis()
	if err != nil {
		return sample{}, err
	}
	defer redis.stop()
	m, err := newMeter(ctx, redis, database)
	if err != nil {
		return sample{}, err
	}
	defer m.close(ctx)
	p, err := startPacer(ctx, redis.url, database, policy, change...)
	if err != nil {
		return sample{}, err
	}
	if err := p.ready(ctx); err != nil {
		return sample{}, errors.Join(err, p.stop())
	}
	measured, err := do(p, m)
	return measured, errors.Join(err, p.stop())
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
