package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/policy"
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
	if a.templates, err = publishedTemplates(ctx, a.redis.client); err != nil {
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
	a := &App{cfg: cfg, log: log, attached: true}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.closeAll())
		}
	}()
	store, err := openRedis(ctx, cfg.Redis)
	if err != nil {
		return nil, err
	}
	a.redis = store
	a.defers("Redis", store.close)
	if err := a.openDatabase(ctx); err != nil {
		return nil, err
	}
	partitions, err := store.partitions(ctx)
	if err != nil {
		return nil, err
	}
	if partitions > 0 {
		cfg.Partitions = partitions
	} else if err := store.agreeOnPartitions(ctx, cfg.Partitions); err != nil {
		return nil, err
	}
	current, err := publishedPolicy(ctx, store.client)
	if err != nil {
		return nil, err
	}
	if current == nil {
		if err := a.openPolicy(ctx); err != nil {
			return nil, err
		}
		current = a.policy.Current()
	}
	channels, err := publishedChannels(ctx, store.client)
	if err != nil {
		return nil, err
	}
	return a, a.openStoreWith(ctx, func() *policy.Policy { return current }, channels)
}

// Close ends the connections.
func (p *Producer) Close() error { return p.app.closeAll() }

// publishedPolicy is the policy that the deployment's dispatchers run with; nil when none has started yet.
func publishedPolicy(ctx context.Context, client redis.UniversalClient) (*policy.Policy, error) {
	text, err := client.Get(ctx, policyKey).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil //nolint:nilnil // none published: no policy, no fault
	}
	if err != nil {
		return nil, err
	}
	return policy.Parse("the deployment's policy", []byte(text))
}
