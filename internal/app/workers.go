package app

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/devices"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/presence"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/settings"
)

// openControl has this process follow what operators tell the deployment.
func (a *App) openControl(ctx context.Context) error {
	a.follower = control.NewFollower(a.deployment.Control, a.queue, a.cfg.Partitions, a.log)
	a.follower.Events = a.deployment.Agendas.Events.Want
	a.deployment.Rules.Heed(a.follower.Wait, a.follower.Paused)
	return a.follower.Refresh(ctx) // what is paused must not run in the first second
}

// openIntake sets up accepting.
func (a *App) openIntake(context.Context) error {
	d := a.deployment
	cfg := intake.Config{
		Store: d.Store, Rules: d.Rules, Render: d.Renderer(), HasDevice: a.devices().HasActive,
		Promises: d.Promises, Log: a.log,
	}
	if d.Pool == nil { // Postgres takes it when Redis is full, and the relay waits until Redis has room
		cfg.Full = d.Memory.Full
	}
	if a.metrics != nil {
		cfg.Accepted = a.metrics.Accepted
	}
	if a.tracer != nil {
		cfg.Trace = a.tracer.accept
	}
	a.intake = intake.New(cfg)
	return nil
}

// openWorkers sets up delivering. Processes without the role have a dispatcher too, which delivers nothing.
func (a *App) openWorkers(context.Context) (err error) {
	d := a.deployment
	if a.cfg.HasRole(settings.RoleWorker) {
		if a.events, err = d.EventSender(a.registry); err != nil {
			return err
		}
		a.metrics.Delivering(a.channels.Names())
		a.workers = queue.NewServer(d.Redis.Pipe, queue.ServerConfig{
			Partitions: a.cfg.Partitions, Spread: a.cfg.Redis != nil && a.cfg.Redis.Kind == settings.RedisCluster,
			Log: a.log,
		})
	}
	cfg := dispatch.Config{
		Partitions: a.cfg.Partitions, Concurrency: a.cfg.Concurrency, DrainTimeout: a.cfg.DrainTimeout,
		Settings: d.Rules.Deliveries, MaxDefer: d.Rules.MaxDefer, Passive: d.Rules.Passive, Shown: d.Rules.Shown,
		ChannelPaused: func(channel notification.Channel) time.Duration {
			return a.follower.Wait(control.Channel, string(channel))
		},
		Resumed: func(partition int) time.Time {
			return a.follower.Resumed(control.Partition, strconv.Itoa(partition))
		},
		Observer: a.metrics, Log: a.log,
	}
	if a.tracer != nil {
		cfg.Trace = a.tracer.deliver
	}
	local := func(channel notification.Channel) bool { return a.channels.Set[channel].Local }
	sender := devices.FanOut(a.senders, local, d.Store, a.log)
	a.dispatcher = dispatch.New(cfg, a.hooks.Dispatch(d.Store), a.workers, sender) //nolint:contextcheck // deliveries end with Stop
	return a.openAnnouncer()
}

// openAnnouncer has this process tell the others that it is alive, and how it does.
func (a *App) openAnnouncer() error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find this host's name: %w", err)
	}
	a.announcer = presence.NewAnnouncer(a.deployment.Redis.Client, host, a.roles(), a.dispatcher.InFlight, a.log)
	a.announcer.Reporting(a.report)
	if a.workers != nil {
		a.retimer = a.deployment.Retimer(a.announcer)
	}
	return nil
}

// devices keeps users' devices.
func (a *App) devices() devices.Checked {
	return devices.Checked{Store: a.deployment.Store, Check: a.deployment.Rules.CheckDevice}
}
