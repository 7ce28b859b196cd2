package app

import (
	"log/slog"
	"net/netip"
	"slices"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	logsender "github.com/pacer-notify/pacer/internal/push/log"
	"github.com/pacer-notify/pacer/internal/push/webhook"
	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/settings"
)

// newSenders makes the senders of all channels that the settings configure, and what closes them.
func newSenders(cfg *settings.Resolved, log *slog.Logger) (push.Registry, func() error, error) {
	allow := cfg.WebhookAllow
	if cfg.Setup.Embedded() {
		// Receivers on the same machine are what one tries pacer with.
		allow = append(slices.Clone(allow), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
	}
	hooks, err := webhook.New(webhook.Config{Secrets: webhookSecrets(cfg), GuardedConfig: httpsend.GuardedConfig{Allow: allow, Idle: cfg.Concurrency}})
	if err != nil {
		return nil, nil, refuse("--webhook-secret (PACER_WEBHOOK_SECRET): %v", err)
	}
	return push.Registry{
		notification.ChannelWebhook: hooks,
		notification.ChannelLog:     logsender.New(log),
	}, hooks.Close, nil
}

// webhookSecrets sign webhooks.
func webhookSecrets(cfg *settings.Resolved) []secret.Secret {
	if cfg.WebhookSecret == "" {
		return nil
	}
	return []secret.Secret{secret.New(cfg.WebhookSecret)}
}
