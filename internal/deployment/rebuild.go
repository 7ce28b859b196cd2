package deployment

import (
	"context"
	"errors"
	"log/slog"

	"github.com/pacer-notify/pacer/internal/refusal"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/store/postgres/rebuild"
)

// Rebuild builds the state in Redis again from Postgres, while the deployment works. Its partitions stand still
// meanwhile. While another process rebuilds, Rebuild waits.
func Rebuild(ctx context.Context, cfg *settings.Resolved, log *slog.Logger) (done rebuild.Rebuilt, err error) {
	err = withRelay(ctx, cfg, log, func(d *Deployment) error {
		if d.unpublished { // it says how far back windows reach
			return refusal.New("Redis has lost the policy, which a rebuild needs: start a dispatcher, which rebuilds by itself, or name the policy file (--policy, PACER_POLICY)")
		}
		if err := d.settleStore(ctx); err != nil { // before the first start
			return err
		}
		done, err = d.Relay.Rebuild(ctx)
		return err
	})
	return done, err
}

// Verify compares Redis with Postgres, and calls found with each difference.
func Verify(ctx context.Context, cfg *settings.Resolved, log *slog.Logger, found func(rebuild.Difference) error,
) error {
	return withRelay(ctx, cfg, log, func(d *Deployment) error { return d.Relay.Verify(ctx, found) })
}

func withRelay(ctx context.Context, cfg *settings.Resolved, log *slog.Logger,
	do func(*Deployment) error,
) error {
	if cfg.Setup != settings.SetupDurable {
		return refusal.New("only a deployment with REDIS_URL and DATABASE_URL can be rebuilt: set both")
	}
	d, err := Attach(ctx, cfg, log)
	if err != nil {
		return err
	}
	return errors.Join(do(d), d.Close())
}
