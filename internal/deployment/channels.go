package deployment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/egress"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/settings"
)

// TargetsAllow are the networks that targets may be in although not public.
func TargetsAllow(cfg *settings.Resolved) []netip.Prefix {
	if !cfg.Setup.Embedded() {
		return cfg.WebhookAllow
	}
	// Whoever tries pacer out has a receiver on the same machine.
	return append(slices.Clone(cfg.WebhookAllow), netip.MustParsePrefix("127.0.0.0/8"),
		netip.MustParsePrefix("::1/128"))
}

// channelsKey holds which channels the deployment's dispatchers have.
const channelsKey = "pacer:channels"

// published is what producers have to know of the channels, so that they refuse what the API would.
type published struct {
	Channels []string `json:"channels"`
	// Public has, by channel, what its checker has to know of the settings.
	Public map[string]string `json:"public,omitempty"`
	// TargetsAllow are the networks that targets may be in although not public.
	TargetsAllow []netip.Prefix `json:"targets_allow"`
}

// everyTarget are the networks of all addresses.
var everyTarget = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// publishChannels writes which channels there are, and which targets they may call.
func publishChannels(ctx context.Context, client redis.UniversalClient, channels channel.Set, allow []netip.Prefix,
) error {
	p := published{Channels: channels.Names(), Public: map[string]string{}, TargetsAllow: allow}
	for name, c := range channels {
		if c.Public != "" {
			p.Public[string(name)] = c.Public
		}
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := client.Set(ctx, channelsKey, text, 0).Err(); err != nil {
		return fmt.Errorf("publish the channels: %w", err)
	}
	return nil
}

// Channels reads the deployment's channels. Their checkers need no credentials. Before the first dispatcher has
// started, they are the channels that need no settings.
func Channels(ctx context.Context, client redis.UniversalClient) (channel.Set, error) {
	var p published
	switch text, err := client.Get(ctx, channelsKey).Bytes(); {
	case errors.Is(err, redis.Nil):
		p.TargetsAllow = everyTarget // the workers check each target before they call it
		for _, descriptor := range (settings.Channels{}).All() {
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
	dialer, err := egress.New(egress.Config{Allow: p.TargetsAllow})
	if err != nil {
		return nil, err
	}
	all := channel.Set{}
	for _, name := range p.Channels {
		descriptor, known := settings.ChannelOf(notification.Channel(name))
		if !known {
			continue // a later version has it
		}
		around := channel.Surroundings{Public: p.Public[name], CheckURL: dialer.CheckURL}
		all[descriptor.Name] = channel.Deployed{Descriptor: descriptor, Checker: descriptor.NewChecker(around)}
	}
	return all, nil
}
