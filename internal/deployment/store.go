package deployment

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/effective"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/redismemory"
	storepostgres "github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/internal/store/postgres/relay"
	storeredis "github.com/pacer-notify/pacer/internal/store/redis"
)

// openStore sets up the agendas and the store over them, under the policy that current gives.
func (d *Deployment) openStore(ctx context.Context, current func() *policy.Policy, channels channel.Set) (err error) {
	cfg := d.cfg
	d.Rules = &Rules{Policy: effective.New(current), Set: channels}
	d.publishing = &publishing{d.Redis.Client, cfg.Settings, d.Rules, d.attached, d.agreeOnPartitions, cfg.Log}
	if !cfg.Settings.Setup.Embedded() {
		d.Memory = redismemory.New(d.Redis.Client, cfg.Log)
		if err := d.Memory.Look(ctx); err != nil { // Run looks again
			cfg.Log.WarnContext(ctx, "could not read how full Redis is; retrying", "error", err)
		}
	}
	d.Agendas, err = agenda.New(d.Redis.Pipe, agenda.Config{
		Full: d.Memory.Full, Direct: d.Redis.Client, Partitions: cfg.Settings.Partitions,
		Settings: d.Rules.Settings, Categories: d.Rules.Categories, Personal: d.Rules.Personal,
		Paused: d.Rules.Paused, Guarded: d.Pool != nil, Retention: d.retention(), Apart: d.attached,
		Deferred: cfg.Deferred, Shadowed: cfg.Shadowed, Pending: cfg.Pending,
		Overflowed: cfg.Overflowed,
	})
	if err != nil {
		return err
	}
	if err := d.openRecords(ctx); err != nil {
		return err
	}
	if d.Pool != nil {
		return d.openPostgresStore(ctx)
	}
	return d.openRedisStore(ctx)
}

// retention is how long Redis remembers an ended notification: where Postgres keeps the store, long enough for a
// repeated request, else the agendas' own default.
func (d *Deployment) retention() time.Duration {
	if d.Pool != nil {
		return time.Minute
	}
	return 0
}

// openRedisStore sets up the store in Redis.
func (d *Deployment) openRedisStore(ctx context.Context) error {
	store := storeredis.New(d.Redis.Pipe, d.Agendas)
	store.OptedOut = func(userID, category string, channel notification.Channel) bool {
		wish, _ := d.Rules.Own.Of(userID)
		return wish.OptedOut(category, channel)
	}
	store.Life = d.Rules.Life
	d.Store = store
	return d.followPreferences(ctx, store)
}

// openPostgresStore sets up the store in Postgres over the agendas, and the relay between them.
func (d *Deployment) openPostgresStore(ctx context.Context) error {
	d.Postgres = storepostgres.New(d.Pool, d.Agendas, storepostgres.Config{
		Apart: d.attached, MayRefuse: d.Rules.MayRefuse, Log: d.cfg.Log,
	})
	d.Store = d.Postgres
	config := relay.Config{
		Check: d.Rules.check, Windows: d.Rules.LongestWindow, Rebuilding: d.publishing.rebuilding,
		Adopted: d.cfg.Adopted, Retention: d.cfg.Settings.Retention,
	}
	if d.cfg.Hooks.Relay != nil {
		d.cfg.Hooks.Relay(&config)
	}
	d.Relay = relay.New(d.Postgres.Stores, config)
	return d.followPreferences(ctx, d.Postgres)
}

// Many finds and changes many of the deployment's notifications; accept accepts what is sent again.
func (d *Deployment) Many(accept *intake.Intake) *desk.Many {
	return &desk.Many{
		Store: d.Store, Names: d.Rules.Vocabulary, Intake: accept, Control: d.Control, Process: rand.Text(),
		Rate: d.cfg.Settings.BulkRate, Log: d.cfg.Log,
	}
}
