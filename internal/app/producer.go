package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/redisconn"
	"github.com/pacer-notify/pacer/internal/settings"
)

// Producer accepts notifications into a deployment without a dispatcher's API: it is that API, inside the producing
// process.
type Producer struct {
	app *App
	// Handler is the API.
	Handler http.Handler
}

// NewProducer connects to a deployment.
func NewProducer(ctx context.Context, cfg *settings.Resolved, log *slog.Logger) (*Producer, error) {
	a, err := attach(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	if a.templates, err = publishedTemplates(ctx, a.redis.Client); err != nil {
		return nil, errors.Join(err, a.closeAll())
	}
	if a.memory != nil {
		watching, stop := context.WithCancel(context.WithoutCancel(ctx))
		a.running.Go(func() { a.memory.Run(watching) })
		a.defers("the watch over Redis's memory", func() error { stop(); a.running.Wait(); return nil })
	}
	a.openIntake(nil)
	handler, err := a.apiHandler(nil, nil)
	if err != nil {
		return nil, errors.Join(err, a.closeAll())
	}
	return &Producer{app: a, Handler: handler}, nil
}

// attach connects to a deployment's stores without taking part in its work. Partitions and policy are those that its
// dispatchers run with; before the first of them has started, they are what the settings say.
func attach(ctx context.Context, cfg *settings.Resolved, log *slog.Logger) (_ *App, err error) {
	a := &App{cfg: cfg, hooks: Hooks{}.withDefaults(), log: log, attached: true}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.closeAll())
		}
	}()
	conn, err := redisconn.Open(ctx, cfg.Redis, a.hooks.Redis)
	if err != nil {
		return nil, err
	}
	a.redis = conn
	a.defers("Redis", conn.Close)
	if err := a.openDatabase(ctx); err != nil {
		return nil, err
	}
	partitions, err := deployment.Partitions(ctx, conn.Client)
	if err != nil {
		return nil, err
	}
	if partitions > 0 {
		cfg.Partitions = partitions
	} else if err := deployment.AgreeOnPartitions(ctx, conn.Client, cfg.Partitions); err != nil {
		return nil, err
	}
	current, err := deployment.Policy(ctx, conn.Client)
	if err != nil {
		return nil, err
	}
	if current == nil {
		if err := a.openPolicy(ctx); err != nil {
			return nil, err
		}
		current = a.policy.Current()
	}
	channels, err := publishedChannels(ctx, conn.Client)
	if err != nil {
		return nil, err
	}
	return a, a.openStoreWith(ctx, func() *policy.Policy { return current }, channels)
}

// Close ends the connections.
func (p *Producer) Close() error { return p.app.closeAll() }
