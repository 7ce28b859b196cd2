package app

import (
	"context"
	"slices"

	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/endpoints"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/gate"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// openChannels opens the channels that the settings configure.
func (a *App) openChannels() error {
	targets := httpsend.GuardedConfig{Allow: deployment.TargetsAllow(a.cfg), Idle: a.cfg.Concurrency}
	a.hooks.Targets(&targets)
	a.endpoints = endpoints.NewDirectory(endpoints.DirectoryConfig{DisableAfter: a.cfg.WebhookDisableAfter, Log: a.log})
	process := channel.Process{Log: a.log, Targets: targets, Registered: a.endpoints.Registered}
	opened, err := channel.Open(a.cfg.Channels.All(), deployment.Signed(process, a.cfg, a.policy.Current))
	if err != nil {
		return err
	}
	a.channels = opened
	a.defers("senders", opened.Close)
	return nil
}

// openGates puts budgets, limits in flight and breakers before the senders of all channels that call a provider.
func (a *App) openGates() error {
	a.senders, a.gates = push.Registry{}, gate.Gates{}
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
		cfg := gate.Config{
			Channel: name, Host: descriptor.Host, InFlight: max(1, a.cfg.Concurrency*3/4),
			Budget: settings.RulesOf(limits), PerTarget: descriptor.PerTarget, BudgetKey: descriptor.BudgetKey(),
			MinGap: a.deployment.Rules.MinGap, Log: a.log,
			Limiter: throttle.NewRedis(a.deployment.Redis.Pipe, func(string) string {
				return "pacer:{provider-" + string(name) + "}:"
			}),
		}
		if name.Kind() == notification.ChannelWebhook {
			cfg.EndsAt = a.deployment.Rules.EndsAt
		}
		a.gates[name] = gate.New(a.senders[name], cfg)
		a.senders[name] = a.endpoints.Watch(name, a.gates[name])
	}
	return nil
}

// health lists the configured channels with their health in this process, for the ops pages.
func (a *App) health() []ops.Channel { return ops.ChannelsHere(a.channels.Names(), a.gates.States) }

// openSecrets keeps secrets in step with the files that they stand in.
func (a *App) openSecrets(context.Context) error {
	a.apiTokens, a.opsTokens = secret.NewTokens(a.cfg.APITokens...), secret.NewTokens(a.cfg.OpsToken)
	a.secrets = secret.NewWatcher(slices.Concat(a.channels.Sources(a.renewed), a.deployment.Sources(), []secret.Source{
		a.cfg.Renewed.APITokens.Source(a.apiTokens.Renew), a.cfg.Renewed.OpsToken.Source(a.opsTokens.Renew),
	}), a.log)
	return nil
}

// renewed is called when a channel has new credentials: what waited because of the old ones goes out.
func (a *App) renewed(ctx context.Context, d channel.Descriptor) {
	if a.gates.Renew(d.Name, d.BudgetKey()) && a.workers != nil {
		a.deployment.Hurry(ctx)
	}
}
