package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/pacer-notify/pacer/internal/ops"
)

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
		Secrets: ops.SecretsOf(a.secrets), Ready: a.retimer.Ready(), Receivers: a.events.Troubled(),
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
