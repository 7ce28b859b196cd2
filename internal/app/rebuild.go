package app

import (
	"context"
	"errors"
	"log/slog"

	"github.com/pacer-notify/pacer/internal/settings"
	storepostgres "github.com/pacer-notify/pacer/internal/store/postgres"
)

// Rebuilt is what a rebuild did.
type Rebuilt = storepostgres.Rebuilt

// Difference is one way in which Redis is not what Postgres says.
type Difference = storepostgres.Difference

// Rebuild makes the state in Redis anew from Postgres, while the deployment works: its partitions hold meanwhile.
func Rebuild(ctx context.Context, cfg *settings.Resolved, log *slog.Logger) (done Rebuilt, err error) {
	err = withRelay(ctx, cfg, log, func(relay *storepostgres.Relay) error {
		done, err = relay.Rebuild(ctx)
		return err
	})
	if err == nil && len(done.Partitions) == 0 {
		err = errors.New("a rebuild is under way already, in another process")
	}
	return done, err
}

// Verify compares Redis with Postgres, and tells found of each difference.
func Verify(ctx context.Context, cfg *settings.Resolved, log *slog.Logger, found func(Difference) error) error {
	return withRelay(ctx, cfg, log, func(relay *storepostgres.Relay) error {
		switch err := relay.CheckImported(ctx); {
		case errors.Is(err, storepostgres.ErrUnimported):
			return found(Difference{What: "unimported", ID: "all", Detail: err.Error() + ": see dispatcher import"})
		case err != nil:
			return err
		}
		return relay.Verify(ctx, found)
	})
}

func withRelay(ctx context.Context, cfg *settings.Resolved, log *slog.Logger,
	do func(*storepostgres.Relay) error,
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
