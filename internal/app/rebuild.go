package app

import (
	"context"
	"errors"
	"log/slog"

	recordpostgres "github.com/pacer-notify/pacer/internal/record/postgres"
	"github.com/pacer-notify/pacer/internal/settings"
)

// Rebuilt is what a rebuild did.
type Rebuilt = recordpostgres.Rebuilt

// Difference is one way in which Redis is not what Postgres says.
type Difference = recordpostgres.Difference

// Rebuild makes the state in Redis anew from Postgres, while the deployment works: its lanes hold meanwhile.
func Rebuild(ctx context.Context, cfg *settings.Resolved, log *slog.Logger) (done Rebuilt, err error) {
	err = withRelay(ctx, cfg, log, func(relay *recordpostgres.Relay) error {
		done, err = relay.Rebuild(ctx)
		return err
	})
	if err == nil && len(done.Lanes) == 0 {
		err = errors.New("a rebuild is under way already, in another process")
	}
	return done, err
}

// Verify compares Redis with Postgres, and tells found of each difference.
func Verify(ctx context.Context, cfg *settings.Resolved, log *slog.Logger, found func(Difference) error) error {
	return withRelay(ctx, cfg, log, func(relay *recordpostgres.Relay) error {
		switch err := relay.CheckImported(ctx); {
		case errors.Is(err, recordpostgres.ErrUnimported):
			return found(Difference{What: "unimported", ID: "all", Detail: err.Error() + ": see dispatcher import"})
		case err != nil:
			return err
		}
		return relay.Verify(ctx, found)
	})
}

func withRelay(ctx context.Context, cfg *settings.Resolved, log *slog.Logger,
	do func(*recordpostgres.Relay) error,
) error {
	if cfg.Setup != settings.SetupDurable {
		return refuse("only a deployment with REDIS_URL and DATABASE_URL can be rebuilt: the others keep one of the two only")
	}
	a, err := attach(ctx, cfg, log)
	if err != nil {
		return err
	}
	return errors.Join(do(a.relay), a.closeAll())
}
