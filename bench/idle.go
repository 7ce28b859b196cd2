package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
)

// idle measures what a process with all roles uses of a core while it has nothing to do, and Redis for it.
func idle(ctx context.Context, o options) ([]figure, error) {
	settles, lasts := 5*time.Second, 30*time.Second
	if o.smoke {
		settles, lasts = 100*time.Millisecond, 300*time.Millisecond
	}
	var figures []figure
	measure := func(what string, p *pacer, m *meter) (sample, error) {
		// A deployment that has worked, and has nothing to do now.
		if err := p.accept(ctx, 100, func(i int) notification.Notification { return oneEach(i) }); err != nil {
			return sample{}, err
		}
		if err := p.deliver(ctx, 100); err != nil {
			return sample{}, err
		}
		if err := rest(ctx, settles); err != nil {
			return sample{}, err
		}
		used, err := m.run(ctx, 1, func() error { return rest(ctx, lasts) })
		share := func(d time.Duration) float64 { return 100 * d.Seconds() / lasts.Seconds() }
		figures = append(figures, figure{
			what: fmt.Sprintf("an idle process, %s, for %s", what, lasts),
			got: fmt.Sprintf("%.2f %% of a core; Redis %.2f %%, Postgres %.2f %%", share(used.used.process),
				share(used.used.redis), share(used.used.postgres)),
			wanted: "≤ 1 %; ≤ 0.3 %",
		})
		return used, err
	}
	if _, err := withPacer(ctx, func(p *pacer, m *meter) (sample, error) {
		return measure("store in Redis", p, m)
	}); err != nil {
		return nil, err
	}
	_, err := withDurable(ctx, policy, func(p *pacer, m *meter) (sample, error) {
		return measure("store in Postgres", p, m)
	})
	return figures, err
}

// rest waits.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
