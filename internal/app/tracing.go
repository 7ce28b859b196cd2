package app

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/tracing"
	"github.com/pacer-notify/pacer/internal/version"
)

// openTracing sets up traces where the environment asks for them.
func (a *App) openTracing(ctx context.Context) error {
	if !tracing.Wanted() {
		return nil
	}
	tracer, err := tracing.New(ctx, version.Current().Version, uuid.NewString(), a.agendas.PlanOf)
	if err != nil {
		return err
	}
	a.tracer = tracer
	a.defers("traces", tracer.Close)
	return nil
}

// traceAccept and traceDeliver are nil without tracing.
func (a *App) traceAccept() func(context.Context, *notification.Notification) func(error) {
	if a.tracer == nil {
		return nil
	}
	return a.tracer.Accept
}

func (a *App) traceDeliver() func(context.Context, *dispatch.Grant, time.Time, time.Time) (context.Context,
	func(dispatch.Outcome)) {
	if a.tracer == nil {
		return nil
	}
	return a.tracer.Deliver
}
