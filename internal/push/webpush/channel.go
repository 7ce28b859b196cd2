package webpush

import (
	"encoding/json"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/secret"
)

// Name is the channel's name.
const Name notification.Channel = "webpush"

// Settings of the channel. Their flags begin with --webpush-.
type Settings struct {
	// Key is the VAPID private key.
	Key string `name:"key" example:"vapid-key" credential:"" needs:"subject" placeholder:"KEY|file:PATH" json:"-" help:"Web Push: the VAPID private key, 32 bytes in base64url."`
	// Subject is the contact for push services.
	Subject string `name:"subject" example:"mailto:ops@example.com" needs:"key" placeholder:"URL" help:"Contact for push services: an https URL or a mailto: address."`
	// Limits are how often all processes together may call push services, such as 600000/1m. Default to none.
	Limits []string `name:"limits" example:"100/1s" placeholder:"N/DURATION" help:"Calls to push services, over all processes. Default: none."`
}

// Channel describes the channel with these settings.
func (s Settings) Channel() channel.Descriptor {
	public, _ := PublicKey(s.Key) // a key that is none is refused when the channel is opened
	return channel.Descriptor{
		Name:       Name,
		Configured: s.Key != "",
		OwnFormat:  "On this channel: a JSON object that is laid over what the service worker gets.",
		Host:       hostOf,
		Limits:     s.Limits,
		Delivery:   channel.DeliveryOfPush(),
		Credential: s.Key,
		PublicKey:  public,
		Responses:  responses,
		NewChecker: func(around channel.Surroundings) push.Checker { return Checker{CheckURL: around.CheckURL} },
		Open: func(process channel.Process) (push.Sender, error) {
			return New(Config{
				PrivateKey: secret.New(s.Key), Subject: s.Subject, GuardedConfig: process.Targets,
			})
		},
	}
}

// hostOf returns the host of a subscription's push service.
func hostOf(to string) string {
	var subscription struct{ Endpoint string }
	if json.Unmarshal([]byte(to), &subscription) != nil {
		return ""
	}
	return httpsend.HostOf(subscription.Endpoint)
}
