package app

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/effective"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/redisconn"
	"github.com/pacer-notify/pacer/internal/redismemory"
	"github.com/pacer-notify/pacer/internal/settings"
	storepostgres "github.com/pacer-notify/pacer/internal/store/postgres"
	storeredis "github.com/pacer-notify/pacer/internal/store/redis"
	"github.com/pacer-notify/pacer/internal/throttle"
)

func (a *App) openRedis(ctx context.Context) error {
	conn, err := redisconn.Open(ctx, a.cfg.Redis, a.hooks.Redis)
	if err != nil {
		return err
	}
	a.redis = conn
	a.defers("Redis", conn.Close)
	if err := deployment.AgreeOnPartitions(ctx, conn.Client, a.cfg.Partitions); err != nil {
		return err
	}
	return deployment.PublishPolicy(ctx, conn.Client, a.policy.Current())
}

// openDatabase connects to Postgres where there is one.
func (a *App) openDatabase(ctx context.Context) error {
	if a.cfg.DatabaseURL == "" {
		return nil
	}
	pool, err := storepostgres.Open(ctx, a.cfg.DatabaseURL, a.hooks.Database)
	if err != nil {
		return err
	}
	a.pool = pool
	a.defers("Postgres", func() error { pool.Close(); return nil })
	if a.cfg.Setup == settings.SetupDurableOneNode {
		release, err := storepostgres.TakeNode(ctx, pool)
		if err != nil {
			return err
		}
		a.defers("the database's lock", release)
	}
	return nil
}

func (a *App) openStore(ctx context.Context) error {
	if err := a.openTemplates(); err != nil {
		return err
	}
	channels, senders, closeSenders, err := openChannels(a.cfg, a.hooks, a.log)
	if err != nil {
		return err
	}
	a.defers("senders", closeSenders)
	if a.senders, err = a.gated(senders, channels); err != nil {
		return err
	}
	if err := a.openStoreWith(ctx, a.policy.Current, channels); err != nil {
		return err
	}
	return errors.Join(a.publishChannels(ctx), a.publishTemplates(ctx))
}

// openStoreWith sets up the agendas and the store over them, under the policy that current gives.
func (a *App) openStoreWith(ctx context.Context, current func() *policy.Policy, channels channels) (err error) {
	a.rules = &rules{Policy: &effective.Policy{Current: current}, channels: channels}
	if !a.cfg.Setup.Embedded() {
		a.memory = redismemory.New(a.redis.Client, a.log)
		if err := a.memory.Look(ctx); err != nil { // Run looks again
			a.log.WarnContext(ctx, "look at the memory of Redis", "error", err)
		}
	}
	a.agendas, err = agenda.New(a.redis.Pipe, agenda.Config{
		Full:   a.memory.Full,
		Direct: a.redis.Client, Partitions: a.cfg.Partitions, Settings: a.rules.Settings,
		Categories: a.rules.Categories,
		Personal:   a.rules.Personal, Guarded: a.pool != nil, Retention: a.retention(),
		Apart: a.attached, Deferred: a.deferred,
	})
	if err != nil {
		return err
	}
	a.queue = queue.NewClient(a.redis.Pipe)
	if a.pool != nil {
		return a.openPostgresStore(ctx)
	}
	a.store = storeredis.New(a.redis.Pipe, a.agendas)
	return a.refuseEarlierVersion(ctx)
}

// retention is how long Redis remembers an ended notification: long enough for a question asked again where Postgres
// keeps the store, else the agendas' own default.
func (a *App) retention() time.Duration {
	if a.pool != nil {
		return time.Minute
	}
	return 0
}

// refuseEarlierVersion refuses a Redis in which an earlier version has notifications waiting, which nobody would wake
// here.
func (a *App) refuseEarlierVersion(ctx context.Context) error {
	if a.cfg.Setup.Embedded() {
		return nil
	}
	old, err := a.agendas.HoldsOldLayout(ctx)
	if err != nil {
		return err
	}
	if old {
		return refuse("this Redis holds notifications that an earlier version of pacer accepted and this one does not read: " +
			"start that version again, accept nothing more, and wait until it has delivered what waits")
	}
	return nil
}

// openPostgresStore sets up the store in Postgres over the agendas, and the relay between them.
func (a *App) openPostgresStore(ctx context.Context) error {
	config := storepostgres.Config{Apart: a.attached, Retention: a.cfg.Retention, Log: a.log}
	a.hooks.Store(&config)
	store := storepostgres.New(a.pool, a.agendas, config)
	a.defers("store", store.Close)
	a.store, a.postgres = store, store
	a.relay = storepostgres.NewRelay(store, storepostgres.RelayConfig{
		Check: a.rules.check, Windows: a.rules.LongestWindow, Rebuilt: a.publishAgain, Adopted: a.adopted,
	})
	parse := func(text json.RawMessage) ([]throttle.Rule, error) { return policy.ParseLimits(text) }
	a.own = storepostgres.NewOwnLimits(store, parse, a.limitsChanged)
	if err := a.own.Refresh(ctx); err != nil {
		return err
	}
	a.rules.Own = a.own
	return nil
}

// adopted counts what processes without metrics of their own accepted.
func (a *App) adopted(category string, n int64) { a.metrics.Adopted(category, n) }

// publishAgain writes what all processes of the deployment have in common to a Redis that was rebuilt.
func (a *App) publishAgain(ctx context.Context) {
	err := errors.Join(deployment.AgreeOnPartitions(ctx, a.redis.Client, a.cfg.Partitions),
		deployment.PublishPolicy(ctx, a.redis.Client, a.rules.Current()))
	if !a.attached { // a producer has no channels and templates of its own
		err = errors.Join(err, a.publishChannels(ctx), a.publishTemplates(ctx))
	}
	if err != nil {
		a.log.WarnContext(ctx, "could not write the number of partitions and the policy to the rebuilt Redis", "error", err)
	}
}
