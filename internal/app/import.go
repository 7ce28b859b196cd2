package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/presence"
	recordpostgres "github.com/pacer-notify/pacer/internal/record/postgres"
	recordredis "github.com/pacer-notify/pacer/internal/record/redis"
	"github.com/pacer-notify/pacer/internal/record/transfer"
	"github.com/pacer-notify/pacer/internal/settings"
)

// Imported counts what an import has brought to Postgres.
type Imported = transfer.Count

// Import brings what a deployment without DATABASE_URL keeps in Redis to Postgres, all or nothing. It may be repeated
// until it succeeds; the first dispatcher then rebuilds Redis from Postgres.
func Import(ctx context.Context, cfg *settings.Resolved, log *slog.Logger) (count Imported, err error) {
	err = withUnimported(ctx, cfg, log, func(a *App) error {
		if err := errors.Join(a.boxes.SetImporting(ctx, agenda.ImportBegun), a.boxes.Move(ctx)); err != nil {
			return err
		}
		source, err := a.redisRecord()
		if err != nil {
			return err
		}
		if err := a.importPauses(ctx); err != nil {
			return err
		}
		if count, err = a.postgres.Import(ctx, source); err != nil {
			return err
		}
		return a.boxes.SetImporting(ctx, agenda.ImportDone)
	})
	return count, err
}

// DeclineImport has the first dispatcher drop what a deployment without DATABASE_URL keeps in Redis.
func DeclineImport(ctx context.Context, cfg *settings.Resolved, log *slog.Logger) error {
	return withUnimported(ctx, cfg, log, func(a *App) error {
		return errors.Join(a.boxes.Move(ctx), a.boxes.SetImporting(ctx, agenda.ImportDeclined))
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
	processes, err := presence.List(ctx, a.store.client)
	switch {
	case err != nil:
		return err
	case len(processes) > 0:
		return refuse("process %s on %s is running: stop every dispatcher, and import some ten seconds later",
			processes[0].ID, processes[0].Host)
	}
	switch err := a.relay.CheckImported(ctx); {
	case err == nil:
		return refuse("there is nothing to import: Redis at %s keeps no record that Postgres has not", cfg.Redis)
	case !errors.Is(err, recordpostgres.ErrUnimported):
		return err
	}
	return do(a)
}

// redisRecord is the record that is still in Redis.
func (a *App) redisRecord() (*recordredis.Record, error) {
	boxes, err := agenda.New(a.store.pipe, agenda.Config{
		Direct: a.store.client, Lanes: a.cfg.Lanes, Settings: a.rules.Settings,
	})
	if err != nil {
		return nil, err
	}
	return recordredis.New(a.store.pipe, boxes), nil
}

// importPauses has everything rest that rests.
func (a *App) importPauses(ctx context.Context) error {
	pauses, err := control.NewRedis(a.store.client).Pauses(ctx)
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
	if !errors.Is(err, recordpostgres.ErrUnimported) {
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
	lanes, err := a.boxes.Stats(ctx)
	if err != nil {
		return "", err
	}
	t := agenda.Sum(lanes)
	return fmt.Sprintf("keeps %d waiting notifications of a deployment without DATABASE_URL, with its windows, devices and idempotency keys, which are not in Postgres",
		t.Queued+t.Deferred+t.Scheduled+t.Retrying+t.Sending), nil
}

// checkMoved refuses to keep a record in a Redis whose deployment has it in Postgres.
func (a *App) checkMoved(ctx context.Context) error {
	if a.pool != nil || a.cfg.Redis == nil {
		return nil
	}
	elsewhere, err := a.boxes.Elsewhere(ctx)
	if err == nil && elsewhere {
		err = refuse("the deployment on Redis at %s keeps its record in Postgres: give this process its DATABASE_URL",
			a.cfg.Redis)
	}
	return err
}
