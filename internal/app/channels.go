package app

import (
	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/gate"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// openChannels opens the channels that the settings configure.
func (a *App) openChannels() error {
	targets := httpsend.GuardedConfig{Allow: deployment.TargetsAllow(a.cfg), Idle: a.cfg.Concurrency}
	a.hooks.Targets(&targets)
	opened, err := channel.Open(a.cfg.Channels.All(), channel.Process{Log: a.log, Targets: targets})
	if err != nil {
		return err
	}
	a.channels = opened
	a.defers("senders", opened.Close)
	return nil
}

// openGates puts budgets, limits in flight and breakers before the senders of all channels that call a provider.
func (a *App) openGates() error {
	a.senders, a.gates = push.Registry{}, map[notification.Channel]*gate.Gate{}
	for name, sender := range a.channels.Senders {
		descriptor := a.channels.Set[name].Descriptor
		a.senders[name] = a.hooks.Sender(sender)
		if descriptor.Local {
			continue
		}
		limits, err := settings.LimitsOf(descriptor)
		if err != nil {
			return err
		}
		a.gates[name] = gate.New(a.senders[name], gate.Config{
			Channel: name, Host: descriptor.Host, InFlight: max(1, a.cfg.Concurrency*3/4), Budget: rulesOf(limits),
			PerTarget: descriptor.PerTarget, BudgetKey: descriptor.BudgetKey(), Log: a.log,
			Limiter: throttle.NewRedis(a.deployment.Redis.Pipe, func(string) string {
				return "pacer:{provider-" + string(name) + "}:"
			}),
		})
		a.senders[name] = a.gates[name]
	}
	return nil
}

// health lists the configured channels with their health in this process, for the ops pages.
func (a *App) health() []ops.Channel {
	return ops.ChannelsHere(a.channels.Names(), func(name string) ops.HostSource {
		if gate, ok := a.gates[notification.Channel(name)]; ok {
			return gate
		}
		return nil
	})
}
