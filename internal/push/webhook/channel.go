package webhook

import (
	"errors"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/signing"
)

// Settings of the channel. Their flags begin with --webhook-.
type Settings struct {
	// Secret is the Standard Webhooks secret that signs deliveries, whsec_... Several, separated by commas, all sign,
	// so that one can replace another. A private key, whsk_..., signs with Ed25519. Registered endpoints have secrets
	// of their own. Defaults to none: deliveries are not signed.
	Secret string `name:"secret" example:"whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0" credential:"" placeholder:"SECRET|file:PATH" json:"-" help:"Standard Webhooks secret (whsec_..., or whsk_... for Ed25519) that signs deliveries. While you replace it, give both: NEW,OLD. Without it, deliveries are not signed."`
	// Targets are secrets of single targets, host=whsec_... A host with an empty secret is not signed for.
	Targets []string `name:"targets" example:"hooks.example.com=whsec_dGFyZ2V0dGFyZ2V0dGFyZ2V0dGFyZ2V0" credential:"" placeholder:"HOST=SECRET|file:PATH" json:"-" help:"Secrets of single webhook hosts, as HOST=SECRET, instead of --webhook-secret."`
	// Limits are how often all processes together may call targets, such as 600000/1m. Defaults to none.
	Limits []string `name:"limits" example:"100/1s" placeholder:"N/DURATION" help:"Calls to webhooks, over all processes. Default: none."`
}

// Channel describes the channel with these settings. It also works without any.
func (s Settings) Channel() channel.Descriptor {
	return channel.Descriptor{
		Name:       notification.ChannelWebhook,
		Configured: true,
		MaxContent: 256 << 10,
		Host:       httpsend.HostOf,
		Limits:     s.Limits,
		Delivery:   delivery(),
		Responses:  responses,
		NewChecker: func(around channel.Surroundings) push.Checker { return Checker{CheckURL: around.CheckURL} },
		Open: func(process channel.Process) (push.Sender, error) {
			targets := map[string][]secret.Secret{}
			for _, target := range s.Targets {
				host, texts, _ := strings.Cut(target, "=")
				targets[host] = secrets(texts)
			}
			return New(Config{
				Secrets: secrets(s.Secret), Targets: targets, Registered: process.Registered,
				GuardedConfig: process.Targets,
			})
		},
	}
}

// delivery is what Standard Webhooks recommends: retries over three days, and a time-out of 15 to 30 seconds. In place
// of its one quick retry, after 5 seconds, there are three within the first minutes: most receivers that fail are back
// by then.
func delivery() notification.DeliverySettings {
	return notification.DeliverySettings{
		Retry: notification.Retry{Schedule: []time.Duration{
			2 * time.Second, 10 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
			5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
		}},
		Timeout: 20 * time.Second,
	}
}

// Check refuses secrets in a wrong form, each with a [*channel.SettingError].
func (s Settings) Check() error {
	faults := []error{checkSecrets("secret", s.Secret)}
	for _, target := range s.Targets {
		host, secrets, ok := strings.Cut(target, "=")
		if !ok || host == "" || strings.ContainsAny(host, "/@ ") {
			faults = append(faults, &channel.SettingError{
				Setting: "targets", Message: "must hold entries such as hooks.example.com=whsec_...",
			})
			continue
		}
		faults = append(faults, checkSecrets("targets", secrets))
	}
	return errors.Join(faults...)
}

// checkSecrets checks each of several secrets.
func checkSecrets(setting, texts string) error {
	var faults []error
	for _, text := range splitSecrets(texts) {
		if _, err := signing.Parse(text); err != nil {
			faults = append(faults, &channel.SettingError{Setting: setting, Message: err.Error()})
		}
	}
	return errors.Join(faults...)
}

// splitSecrets reads secrets that are separated by commas.
func splitSecrets(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
}

// secrets reads several secrets in one setting.
func secrets(text string) []secret.Secret {
	var all []secret.Secret
	for _, one := range splitSecrets(text) {
		all = append(all, secret.New(one))
	}
	return all
}
