package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/settings"
)

// Producer accepts notifications into a deployment without a dispatcher's API: it is that API, inside the producing
// process.
type Producer struct {
	app *App
	// Handler is the API.
	Handler http.Handler
}

// NewProducer attaches to a deployment.
func NewProducer(ctx context.Context, cfg *settings.Resolved, log *slog.Logger) (_ *Producer, err error) {
	d, err := deployment.Attach(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	a := &App{cfg: cfg, log: log, deployment: d}
	a.defers("the deployment", d.Close)
	defer func() {
		if err != nil {
			err = errors.Join(err, a.closeAll())
		}
	}()
	if err := d.UsePublishedTemplates(ctx); err != nil {
		return nil, err
	}
	a.follow(ctx)
	if err := a.openIntake(ctx); err != nil {
		return nil, err
	}
	handler, err := a.apiHandler(nil, nil, nil)
	if err != nil {
		return nil, err
	}
	return &Producer{app: a, Handler: handler}, nil
}

// follow keeps a producer in step with its deployment until it is closed: one that reads from a pipe may live for days.
func (a *App) follow(ctx context.Context) {
	d := a.deployment
	services := []Service{secret.NewWatcher(d.Sources(), a.log), d.Preferences, d.Published}
	if d.Memory != nil {
		services = append(services, d.Memory)
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	for _, service := range services {
		a.running.Go(func() { service.Run(watching) })
	}
	a.defers("what follows the deployment", func() error { stop(); a.running.Wait(); return nil })
}

// Close ends the connections.
func (p *Producer) Close() error { return p.app.closeAll() }
