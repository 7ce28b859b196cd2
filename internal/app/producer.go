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
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	a.running.Go(func() { secret.NewWatcher(d.Sources(), log).Run(watching) })
	if d.Memory != nil {
		a.running.Go(func() { d.Memory.Run(watching) })
	}
	a.defers("the watch over Redis's memory and secrets", func() error { stop(); a.running.Wait(); return nil })
	if err := a.openIntake(ctx); err != nil {
		return nil, err
	}
	handler, err := a.apiHandler(nil, nil, nil)
	if err != nil {
		return nil, err
	}
	return &Producer{app: a, Handler: handler}, nil
}

// Close ends the connections.
func (p *Producer) Close() error { return p.app.closeAll() }
