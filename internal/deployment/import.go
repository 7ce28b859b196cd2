package deployment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/endpoints"
	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/plural"
	"github.com/pacer-notify/pacer/internal/presence"
	"github.com/pacer-notify/pacer/internal/refusal"
	"github.com/pacer-notify/pacer/internal/settings"
	storepostgres "github.com/pacer-notify/pacer/internal/store/postgres"
	storeredis "github.com/pacer-notify/pacer/internal/store/redis"
	"github.com/pacer-notify/pacer/internal/store/transfer"
)

// Import brings what a deployment without DATABASE_URL keeps in Redis to Postgres, all or nothing. It may be repeated
// until it succeeds; the first dispatcher then rebuilds Redis from Postgres.
func Import(ctx context.Context, cfg *settings.Resolved, log *slog.Logger) (count transfer.Count, err error) {
	err = withUnimported(ctx, cfg, log, func(d *Deployment) error {
		if err := errors.Join(d.Agendas.SetImporting(ctx, agenda.ImportBegun), d.Agendas.Move(ctx)); err != nil {
			return err
		}
		source, err := d.redisStore()
		if err != nil {
			return err
		}
		if err := d.importRecords(ctx); err != nil {
			return err
		}
		if count, err = d.Postgres.Import(ctx, source, d.Rules.CategoryNames()); err != nil {
			return err
		}
		return d.Agendas.SetImporting(ctx, agenda.ImportDone)
	})
	return count, err
}

// DeclineImport has the first dispatcher drop what a deployment without DATABASE_URL keeps in Redis.
func DeclineImport(ctx context.Context, cfg *settings.Resolved, log *slog.Logger) error {
	return withUnimported(ctx, cfg, log, func(d *Deployment) error {
		return errors.Join(d.Agendas.Move(ctx), d.Agendas.SetImporting(ctx, agenda.ImportDeclined))
	})
}

// withUnimported attaches to a deployment that has not been imported and of which no process runs.
func withUnimported(ctx context.Context, cfg *settings.Resolved, log *slog.Logger, do func(*Deployment) error,
) (err error) {
	if cfg.Setup != settings.SetupDurable {
		return refusal.New("an import goes from Redis to Postgres: set REDIS_URL and DATABASE_URL")
	}
	d, err := Attach(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	running, err := presence.Running(ctx, d.Redis.Client)
	switch {
	case err != nil:
		return err
	case running.ID != "":
		return refusal.New("process %s on %s is running: stop every dispatcher, and import again", running.ID, running.Host)
	}
	switch err := d.Relay.CheckImported(ctx); {
	case err == nil:
		return refusal.New("there is nothing to import: everything in Redis at %s is already in Postgres", cfg.Redis)
	case !errors.Is(err, storepostgres.ErrUnimported):
		return err
	}
	return do(d)
}

// redisStore is the store that is still in Redis.
func (d *Deployment) redisStore() (*storeredis.Store, error) {
	agendas, err := agenda.New(d.Redis.Pipe, agenda.Config{
		Direct: d.Redis.Client, Partitions: d.cfg.Settings.Partitions, Settings: d.Rules.Settings,
	})
	if err != nil {
		return nil, err
	}
	return storeredis.New(d.Redis.Pipe, agendas), nil
}

// importRecords pauses in Postgres what is paused in Redis, and copies the webhook endpoints. The events that tell of
// them stay behind, and their numbers are not given again: a program that has read some asks for what comes after.
func (d *Deployment) importRecords(ctx context.Context) error {
	from := storeredis.NewRecords(d.Redis.Client)
	pauses, err := control.New(from).Pauses(ctx)
	if err != nil {
		return err
	}
	for _, pause := range pauses {
		if err := d.Control.Pause(ctx, pause); err != nil {
			return err
		}
	}
	if err := endpoints.Copy(ctx, endpoints.NewStore(from), d.Endpoints); err != nil {
		return err
	}
	latest, err := from.Latest(ctx, events.Log)
	if err != nil {
		return err
	}
	return storepostgres.NewRecords(d.Pool).Skip(ctx, events.Log, latest)
}

// refuseOtherStore refuses to start beside a store that this process would not look into: one in Redis that was not
// imported, or one in Postgres without its DATABASE_URL.
func (d *Deployment) refuseOtherStore(ctx context.Context) error {
	if d.Relay != nil {
		return d.refuseUnimported(ctx)
	}
	if d.cfg.Settings.Redis == nil {
		return nil
	}
	elsewhere, err := d.Agendas.Elsewhere(ctx)
	if err == nil && elsewhere {
		err = refusal.New("the deployment on Redis at %s has its store in Postgres: set DATABASE_URL for this process, too",
			d.cfg.Settings.Redis)
	}
	return err
}

func (d *Deployment) refuseUnimported(ctx context.Context) error {
	err := d.Relay.CheckImported(ctx)
	if !errors.Is(err, storepostgres.ErrUnimported) {
		return err
	}
	holds, countErr := d.unimported(ctx)
	if countErr != nil {
		return countErr
	}
	return refusal.New("Redis at %s %s: stop its processes and run dispatcher import, or drop all of it with dispatcher import --decline", d.cfg.Settings.Redis, holds)
}

// unimported says what waits in Redis.
func (d *Deployment) unimported(ctx context.Context) (string, error) {
	t, err := d.Agendas.Stats(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("keeps %s of a deployment without DATABASE_URL, with its windows, devices and idempotency keys, which are not in Postgres",
		plural.Of(t.Queued+t.Deferred+t.Scheduled+t.Retrying+t.Sending, "waiting notification",
			"waiting notifications")), nil
}
