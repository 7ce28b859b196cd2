package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/presence"
	"github.com/pacer-notify/pacer/internal/settings"
	storepostgres "github.com/pacer-notify/pacer/internal/store/postgres"
	storeredis "github.com/pacer-notify/pacer/internal/store/redis"
	"github.com/pacer-notify/pacer/internal/store/transfer"
)

// Imported counts what an import has brought to Postgres.
type Imported = transfer.Count

// Import brings what a deployment without DATABASE_URL keeps in Redis to Postgres, all or nothing. It may be repeated
// until it succeeds; the first dispatcher then rebuilds Redis from Postgres.
func Import(ctx context.Context, cfg *settings.Resolved, log *slog.Logger) (count Imported, err error) {
	err = withUnimported(ctx, cfg, log, func(a *App) error {
		if err := errors.Join(a.agendas.SetImporting(ctx, agenda.ImportBegun), a.agendas.Move(ctx)); err != nil {
			return err
		}
		source, err := a.redisStore()
		if err != nil {
			return err
		}
		if err := a.importPauses(ctx); err != nil {
			return err
		}
		if count, err = a.postgres.Import(ctx, source); err != nil {
			return err
		}
		return a.agendas.SetImporting(ctx, agenda.ImportDone)
	})
	return count, err
}

// DeclineImport has the first dispatcher drop what a deployment without DATABASE_URL keeps in Redis.
func DeclineImport(ctx context.Context, cfg *settings.Resolved, log *slog.Logger) error {
	return withUnimported(ctx, cfg, log, func(a *App) error {
		return errors.Join(a.agendas.Move(ctx), a.agendas.SetImporting(ctx, agenda.ImportDeclined))
	})
}

// withUnimported connects to both stores of a deployment that has not been imported and of which no process runs.
func withUnimported(ctx context.Context, cfg *settings.Resolved, log *slog.Logger, do func(*App) error) (err error) {
	if cfg.Setup != settings.SetupDurable {
		return refuse("an import goes from Redis to Postgres: set REDIS_URL and DATABASE_URL")
	}
	a, err := attach(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.closeAll()) }()
	processes, err := presence.List(ctx, a.redis.Client)
	switch {
	case err != nil:
		return err
	case len(processes) > 0:
		return refuse("process %s on %s is running: stop every dispatcher, and import some ten seconds later",
			processes[0].ID, processes[0].Host)
	}
	switch err := a.relay.CheckImported(ctx); {
	case err == nil:
		return refuse("there is nothing to import: Redis at %s keeps no store that Postgres has not", cfg.Redis)
	case !errors.Is(err, storepostgres.ErrUnimported):
		return err
	}
	return do(a)
}

// redisStore is the store that is still in Redis.
func (a *App) redisStore() (*storeredis.Store, error) {
	agendas, err := agenda.New(a.redis.Pipe, agenda.Config{
		Direct: a.redis.Client, Partitions: a.cfg.Partitions, Settings: a.rules.Settings,
	})
	if err != nil {
		return nil, err
	}
	return storeredis.New(a.redis.Pipe, agendas), nil
}

// importPauses pauses in Postgres what is paused in Redis.
func (a *App) importPauses(ctx context.Context) error {
	pauses, err := control.NewRedis(a.redis.Client).Pauses(ctx)
	if err != nil {
		return err
	}
	for _, pause := range pauses {
		if err := control.NewPostgres(a.pool).Pause(ctx, pause); err != nil {
			return err
		}
	}
	return nil
}

// checkImported refuses to start beside what a deployment without DATABASE_URL keeps in Redis.
func (a *App) checkImported(ctx context.Context) error {
	if a.relay == nil {
		return nil
	}
	err := a.relay.CheckImported(ctx)
	if !errors.Is(err, storepostgres.ErrUnimported) {
		return err
	}
	holds, countErr := a.unimported(ctx)
	if countErr != nil {
		return countErr
	}
	return refuse("Redis at %s %s: stop its processes and run dispatcher import, or drop all of it with dispatcher import --decline", a.cfg.Redis, holds)
}

// unimported tells what waits in Redis.
func (a *App) unimported(ctx context.Context) (string, error) {
	t, err := a.agendas.Stats(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("keeps %d waiting notifications of a deployment without DATABASE_URL, with its windows, devices and idempotency keys, which are not in Postgres",
		t.Queued+t.Deferred+t.Scheduled+t.Retrying+t.Sending), nil
}

// checkMoved refuses to keep a store in a Redis whose deployment has it in Postgres.
func (a *App) checkMoved(ctx context.Context) error {
	if a.pool != nil || a.cfg.Redis == nil {
		return nil
	}
	elsewhere, err := a.agendas.Elsewhere(ctx)
	if err == nil && elsewhere {
		err = refuse("the deployment on Redis at %s keeps its store in Postgres: give this process its DATABASE_URL",
			a.cfg.Redis)
	}
	return err
}
