package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/internal/version"
)

// openTracing sets up traces where the environment asks for them. Whatever is wrong with them, the process delivers.
func (a *App) openTracing(ctx context.Context) error {
	if !tracesWanted() {
		return nil
	}
	reportTelemetry(a.log)
	planOf := func(userID, category string) throttle.Plan {
		return a.deployment.Agendas.SettingsOf(userID, category).Plan
	}
	tracer, err := newTracer(ctx, version.Current().Version, uuid.NewString(), planOf)
	if err != nil {
		a.log.WarnContext(ctx, "traces are not as the OTEL_ variables say", "error", err)
	}
	if tracer == nil {
		return nil
	}
	a.tracer = tracer
	a.defers("traces", func() error {
		if err := tracer.close(ctx); err != nil {
			a.log.WarnContext(ctx, "could not export the last traces", "error", err)
		}
		return nil
	})
	return nil
}

func (a *App) openMetrics(context.Context) error {
	metrics, err := ops.NewMetrics(a.registry)
	if err != nil {
		return fmt.Errorf("register the metrics: %w", err)
	}
	a.metrics = metrics
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := a.registry.Register(c); err != nil {
			return fmt.Errorf("register the metrics: %w", err)
		}
	}
	return nil
}

// report is what this process tells the dashboards of the others.
func (a *App) report() any {
	policy := a.policyInForce()
	r := ops.Report{
		Lateness: a.metrics.LatenessCounts(), Channels: a.health(), Ends: a.metrics.Ends(), Policy: &policy,
		Secrets: ops.SecretsOf(a.secrets), Ready: a.retimer.Ready(),
	}
	if a.workers != nil {
		r.Concurrency = a.cfg.Concurrency
	}
	return r
}

// logStart logs what this process is and where it can be reached, a line for each.
func (a *App) logStart(ctx context.Context) {
	a.deployment.LogSetup(ctx)
	log := a.log
	log.InfoContext(ctx, "this process has started", "id", a.announcer.ID(), "roles", strings.Join(a.roles(), ","))
	if a.api != nil {
		log.InfoContext(ctx, "the API is listening", "url", "http://"+a.api.addr())
	}
	if a.ops != nil {
		log.InfoContext(ctx, "the ops pages are listening", "url", "http://"+a.ops.addr())
	}
	log.InfoContext(ctx, "this policy is in force", "file", a.policy.Name(), "version",
		a.policy.Current().Version(), "categories", len(a.policy.Current().Categories))
	log.InfoContext(ctx, "these channels are configured", "channels", strings.Join(a.channels.Names(), ","))
	log.InfoContext(ctx, "the queue is divided into partitions", "partitions", a.cfg.Partitions)
	if a.workers != nil {
		log.InfoContext(ctx, "the workers are ready", "concurrency", a.cfg.Concurrency)
	}
}

func (a *App) roles() []string {
	names := make([]string, len(a.cfg.Roles))
	for i, role := range a.cfg.Roles {
		names[i] = string(role)
	}
	return names
}
