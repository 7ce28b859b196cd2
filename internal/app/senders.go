package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/egress"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/settings"
)

// channels are those that the deployment has.
type channels = channel.Set

// openChannels opens the senders of all channels that the settings configure. closeAll ends their connections.
func openChannels(cfg *settings.Resolved, hooks Hooks, log *slog.Logger) (
	all channels, senders push.Registry, closeAll func() error, err error,
) {
	all, senders = channels{}, push.Registry{}
	closeAll = func() error {
		var faults []error
		for _, sender := range senders {
			if open, ok := sender.(io.Closer); ok {
				faults = append(faults, open.Close())
			}
		}
		return errors.Join(faults...)
	}
	for _, descriptor := range cfg.Channels.All() {
		if !descriptor.Configured {
			continue
		}
		targets := httpsend.GuardedConfig{Allow: allowed(cfg), Idle: cfg.Concurrency}
		hooks.Targets(&targets)
		sender, err := descriptor.Open(channel.Process{Log: log, Targets: targets})
		if err != nil {
			err = refuse("the settings of channel %s (--%[1]s-…): %v", descriptor.Name, err)
			return nil, nil, nil, errors.Join(err, closeAll())
		}
		senders[descriptor.Name] = hooks.Sender(sender)
		all[descriptor.Name] = channel.Deployed{Descriptor: descriptor, Checker: sender}
	}
	return all, senders, closeAll, nil
}

// allowed are the networks that targets may be in although not public.
func allowed(cfg *settings.Resolved) []netip.Prefix {
	if !cfg.Setup.Embedded() {
		return cfg.WebhookAllow
	}
	// Receivers on the same machine are what one tries pacer with.
	return append(slices.Clone(cfg.WebhookAllow), netip.MustParsePrefix("127.0.0.0/8"),
		netip.MustParsePrefix("::1/128"))
}

// channelsKey holds which channels the deployment's dispatchers have, for producers that write to the queue themselves.
const channelsKey = "pacer:channels"

// published is what producers have to know of the channels, so that they refuse what the API would.
type published struct {
	Channels []string `json:"channels"`
	// Public has, by channel, what its checker has to know of the settings.
	Public map[string]string `json:"public,omitempty"`
	// TargetsAllow are the networks that targets may be in although not public. Of a program that did not tell it is
	// nil: the workers judge, who do so at each delivery in any case.
	TargetsAllow *[]netip.Prefix `json:"targets_allow,omitempty"`
}

// everyTarget are the networks of all addresses.
var everyTarget = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// publishChannels tells producers that write to the queue themselves which channels there are.
func (a *App) publishChannels(ctx context.Context) error {
	allow := append([]netip.Prefix{}, allowed(a.cfg)...) // none is told too
	p := published{Channels: a.rules.channels.Names(), Public: map[string]string{}, TargetsAllow: &allow}
	for name, c := range a.rules.channels {
		if c.Public != "" {
			p.Public[string(name)] = c.Public
		}
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := a.redis.Client.Set(ctx, channelsKey, text, 0).Err(); err != nil {
		return fmt.Errorf("publish the channels: %w", err)
	}
	return nil
}

// publishedChannels are the deployment's, with checkers that need no credentials. Before the deployment's first
// dispatcher has started they are the channels that need no settings.
func publishedChannels(ctx context.Context, client redis.UniversalClient) (channels, error) {
	known := settings.Channels{}.All()
	var p published
	switch text, err := client.Get(ctx, channelsKey).Bytes(); {
	case errors.Is(err, redis.Nil):
		for _, descriptor := range known {
			if descriptor.Configured {
				p.Channels = append(p.Channels, string(descriptor.Name))
			}
		}
	case err != nil:
		return nil, fmt.Errorf("read the deployment's channels: %w", err)
	default:
		if err := json.Unmarshal(text, &p); err != nil {
			return nil, fmt.Errorf("read the deployment's channels: %w", err)
		}
	}
	if p.TargetsAllow == nil {
		p.TargetsAllow = &everyTarget
	}
	dialer, err := egress.New(egress.Config{Allow: *p.TargetsAllow})
	if err != nil {
		return nil, err
	}
	all := channels{}
	for _, descriptor := range known {
		if name := string(descriptor.Name); slices.Contains(p.Channels, name) {
			around := channel.Surroundings{Public: p.Public[name], CheckURL: dialer.CheckURL}
			all[descriptor.Name] = channel.Deployed{Descriptor: descriptor, Checker: descriptor.NewChecker(around)}
		}
	}
	return all, nil
}
