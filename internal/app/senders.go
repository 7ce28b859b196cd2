package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/egress"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/apns"
	"github.com/pacer-notify/pacer/internal/push/email"
	"github.com/pacer-notify/pacer/internal/push/fcm"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	logsender "github.com/pacer-notify/pacer/internal/push/log"
	"github.com/pacer-notify/pacer/internal/push/webhook"
	"github.com/pacer-notify/pacer/internal/push/webpush"
	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/settings"
)

// checkers look at notifications of the configured channels before they are accepted.
type checkers map[notification.Channel]push.Checker

// checkersOf are those of senders.
func checkersOf(senders push.Registry) checkers {
	all := checkers{}
	for channel, sender := range senders {
		all[channel] = sender
	}
	return all
}

// closeable is a sender that holds connections.
type closeable interface {
	push.Sender
	Close() error
}

// newSenders makes the senders of all channels that the settings configure, and what closes them.
func newSenders(cfg *settings.Resolved, log *slog.Logger) (push.Registry, func() error, error) {
	senders := push.Registry{notification.ChannelLog: logsender.New(log)}
	var open []closeable
	closeAll := func() error {
		var faults []error
		for _, sender := range open {
			faults = append(faults, sender.Close())
		}
		return errors.Join(faults...)
	}
	c := cfg.Channels
	for _, channel := range []struct {
		name       notification.Channel
		configured bool
		open       func() (closeable, error)
	}{
		{notification.ChannelWebhook, true, func() (closeable, error) { return newWebhook(cfg) }},
		{notification.ChannelFCM, c.FCMCredentials != "", func() (closeable, error) {
			return fcm.New(fcm.Config{
				Credentials: secret.New(c.FCMCredentials), Project: c.FCMProject,
				Endpoint: c.FCMEndpoint,
			})
		}},
		{notification.ChannelAPNs, c.APNsKey != "", func() (closeable, error) {
			return apns.New(apns.Config{
				Key: secret.New(c.APNsKey), KeyID: c.APNsKeyID, TeamID: c.APNsTeamID, Topic: c.APNsTopic,
				Host: apnsHost(c.APNsEndpoint),
			})
		}},
		{notification.ChannelWebPush, c.WebPushKey != "", func() (closeable, error) {
			return webpush.New(webpush.Config{
				PrivateKey: secret.New(c.WebPushKey), Subject: c.WebPushSubject, GuardedConfig: guarded(cfg),
			})
		}},
		{notification.ChannelEmail, c.EmailServer != "", func() (closeable, error) {
			return email.New(email.Config{
				Server: c.EmailServer, Password: secret.New(c.EmailPassword), From: c.EmailFrom,
			})
		}},
	} {
		if !channel.configured {
			continue
		}
		sender, err := channel.open()
		if err != nil {
			return nil, nil, errors.Join(refuse("the settings of channel %s (--%[1]s-…): %v", channel.name, err),
				closeAll())
		}
		open = append(open, sender)
		senders[channel.name] = sender
	}
	return senders, closeAll, nil
}

// newWebhook makes the sender of webhooks.
func newWebhook(cfg *settings.Resolved) (*webhook.Sender, error) {
	targets := map[string][]secret.Secret{}
	for _, target := range cfg.Channels.WebhookTargets {
		host, texts, _ := strings.Cut(target, "=")
		targets[host] = secretsOf(texts)
	}
	return webhook.New(webhook.Config{
		Secrets: secretsOf(cfg.WebhookSecret), Targets: targets, GuardedConfig: guarded(cfg),
	})
}

// secretsOf are several secrets in one setting.
func secretsOf(text string) []secret.Secret {
	var all []secret.Secret
	for _, one := range settings.SplitSecrets(text) {
		all = append(all, secret.New(one))
	}
	return all
}

// guarded says which targets from input may be called.
func guarded(cfg *settings.Resolved) httpsend.GuardedConfig {
	config := httpsend.GuardedConfig{Allow: allowed(cfg), Idle: cfg.Concurrency}
	mutateTargets(&config)
	return config
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

func apnsHost(endpoint string) string {
	switch endpoint {
	case "", "production":
		return apns.Production
	case "sandbox":
		return apns.Sandbox
	}
	return endpoint
}

// channelsKey holds which channels the deployment's dispatchers have, for producers that write to the queue themselves.
const channelsKey = "pacer:channels"

// published is what producers have to know of the channels, so that they refuse what the API would.
type published struct {
	Channels  []string `json:"channels"`
	APNsTopic string   `json:"apns_topic,omitempty"`
	// TargetsAllow are the networks that targets may be in although not public. Of a program that did not tell it is
	// nil: the workers judge, who do so at each delivery in any case.
	TargetsAllow *[]netip.Prefix `json:"targets_allow,omitempty"`
}

// everyTarget are the networks of all addresses.
var everyTarget = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// channelNames are the configured channels.
func (a *App) channelNames() []string {
	names := make([]string, 0, len(a.rules.checkers))
	for channel := range a.rules.checkers {
		names = append(names, string(channel))
	}
	slices.Sort(names)
	return names
}

// publishChannels tells producers that write to the queue themselves which channels there are.
func (a *App) publishChannels(ctx context.Context) error {
	allow := append([]netip.Prefix{}, allowed(a.cfg)...) // none is told too
	text, err := json.Marshal(published{
		APNsTopic: a.cfg.Channels.APNsTopic, Channels: a.channelNames(), TargetsAllow: &allow,
	})
	if err != nil {
		return err
	}
	if err := a.redis.client.Set(ctx, channelsKey, text, 0).Err(); err != nil {
		return fmt.Errorf("publish the channels: %w", err)
	}
	return nil
}

// publishedCheckers are those of the deployment's channels, which need no credentials; before its first dispatcher has
// started, those of webhook and log.
func publishedCheckers(ctx context.Context, client redis.UniversalClient) (checkers, error) {
	p := published{Channels: []string{string(notification.ChannelWebhook), string(notification.ChannelLog)}}
	switch text, err := client.Get(ctx, channelsKey).Bytes(); {
	case errors.Is(err, redis.Nil):
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
	known := checkers{
		notification.ChannelWebhook: webhook.Checker{CheckURL: dialer.CheckURL},
		notification.ChannelLog:     logsender.New(slog.Default()),
		notification.ChannelFCM:     fcm.Checker{}, notification.ChannelAPNs: apns.Checker{Topic: p.APNsTopic},
		notification.ChannelWebPush: webpush.Checker{CheckURL: dialer.CheckURL},
		notification.ChannelEmail:   email.Checker{},
	}
	all := checkers{}
	for _, channel := range p.Channels {
		if checker, ok := known[notification.Channel(channel)]; ok {
			all[notification.Channel(channel)] = checker
		}
	}
	return all, nil
}
