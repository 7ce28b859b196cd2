package app

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/devices"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/presence"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/settings"
)

// openControl has this process follow what operators tell the deployment.
func (a *App) openControl(ctx context.Context) error {
	if a.pool != nil {
		a.control = control.NewPostgres(a.pool)
	} else {
		a.control = control.NewRedis(a.redis.Client)
	}
	a.follower = control.NewFollower(a.control, a.reconcilePartitions, a.log)
	return a.follower.Refresh(ctx) // what is paused must not run in the first second
}

// reconcilePartitions pauses the queues of the partitions that shouldPause names, and resumes the others.
func (a *App) reconcilePartitions(
	ctx context.Context, shouldPause func(partition string) bool,
) ([]control.PartitionState, error) {
	found, err := a.queue.Reconcile(ctx, a.cfg.Partitions, func(partition int) bool {
		return shouldPause(strconv.Itoa(partition))
	})
	states := make([]control.PartitionState, len(found))
	for i, state := range found {
		name := strconv.Itoa(state.Partition)
		states[i] = control.PartitionState{Name: name, Outside: state.Outside, Since: state.Since.UTC()}
	}
	return states, err
}

// deferred counts deferrals, once there are metrics.
func (a *App) deferred(category, rule string, n int) {
	if a.metrics != nil {
		a.metrics.Deferred(category, rule, n)
	}
}

// openIntake sets up accepting; accepted, which may be nil, is told the category of each notification.
func (a *App) openIntake(accepted func(category string)) {
	full := a.memory.Full
	if a.pool != nil { // Postgres takes it, and the relay waits until Redis has room
		full = nil
	}
	a.intake = intake.New(intake.Config{
		Full: full, Store: a.store, Rules: a.rules, Render: a.renderer(), HasDevice: a.devices().HasActive,
		Trace: a.traceAccept(), Accepted: accepted, Log: a.log,
	})
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
	a.openIntake(metrics.Accepted)
	return nil
}

func (a *App) openWorkers(context.Context) error {
	if a.cfg.HasRole(settings.RoleWorker) {
		a.workers = queue.NewServer(a.redis.Pipe, queue.ServerConfig{
			Partitions: a.cfg.Partitions, Spread: a.cfg.Redis != nil && a.cfg.Redis.Kind == settings.RedisCluster,
			Log: a.log,
		})
	}
	a.rules.PausedFor = func(category string) time.Duration { return a.follower.Wait(control.Category, category) }
	local := func(channel notification.Channel) bool { return a.rules.channels[channel].Local }
	a.dispatcher = dispatch.New(dispatch.Config{
		Partitions: a.cfg.Partitions, Concurrency: a.cfg.Concurrency, DrainTimeout: a.cfg.DrainTimeout,
		Retry:    a.rules.Retry,
		MaxDefer: a.rules.MaxDefer, ChannelPaused: func(channel notification.Channel) time.Duration {
			return a.follower.Wait(control.Channel, string(channel))
		}, Trace: a.traceDeliver(), Observer: a.metrics,
		Log: a.log,
	}, a.hooks.Dispatch(a.store), a.workers, devices.FanOut(a.senders, local, a.store, a.log))
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find this host's name: %w", err)
	}
	a.announcer = presence.NewAnnouncer(a.redis.Client, host, a.roles(), a.dispatcher.InFlight, a.log)
	a.announcer.Reporting(a.report)
	return nil
}

// devices keeps users' devices.
func (a *App) devices() devices.Checked {
	return devices.Checked{Store: a.store, Check: a.rules.CheckDevice}
}

// report is what this process tells the dashboards of the others.
func (a *App) report() any {
	r := ops.Report{Lateness: a.metrics.LatenessCounts(), Channels: a.channels()}
	if a.workers != nil {
		r.Concurrency = a.cfg.Concurrency
	}
	return r
}
