package apns

import (
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/secret"
)

// Name is the channel's name.
const Name notification.Channel = "apns"

// Settings of the channel. Their flags begin with --apns-.
type Settings struct {
	// Key is the text of a .p8 file.
	Key string `name:"key" example:"signing-key" credential:"" needs:"key-id,team-id,topic" placeholder:"PEM|file:PATH" json:"-" help:"Apple Push Notification service: the signing key (.p8)."`
	// KeyID and TeamID are ten characters each, as Apple shows them.
	KeyID  string `name:"key-id" example:"ABCDEFGHIJ" needs:"key" placeholder:"ID" help:"Id of the signing key, ten characters."`
	TeamID string `name:"team-id" example:"KLMNOPQRST" placeholder:"ID" help:"Id of the team, ten characters."`
	// Topic is the app's bundle id.
	Topic string `name:"topic" example:"com.example.app" placeholder:"BUNDLE" help:"Bundle id of the app."`
	// Endpoint is production, sandbox or a URL. Defaults to production.
	Endpoint string `name:"endpoint" example:"sandbox" placeholder:"URL" help:"production, sandbox or another base URL. Default: production."`
	// Proxy is a proxy's URL, user and password included. Defaults to none, whatever the environment says.
	Proxy string `name:"proxy" example:"https://pacer:apns-proxy@proxy.example.com:3128" credential:"" needs:"key" placeholder:"URL|file:PATH" json:"-" help:"Proxy for APNs, http://[user:password@]host:port or https://... Default: none."`
	// Limits are how often all processes together may call APNs, such as 600000/1m. Default to none.
	Limits []string `name:"limits" example:"100/1s" placeholder:"N/DURATION" help:"Calls to APNs, over all processes. Default: none."`
}

// Channel describes the channel with these settings.
func (s Settings) Channel() channel.Descriptor {
	return channel.Descriptor{
		Name:       Name,
		Configured: s.Key != "",
		OwnFormat: "On this channel: a JSON object that is laid over the payload; its member headers may set " +
			"apns-push-type, apns-priority and apns-topic.",
		Limits:     s.Limits,
		Delivery:   channel.DeliveryOfPush(),
		Credential: s.TeamID + s.KeyID,
		Public:     s.Topic,
		Responses:  responses,
		NewChecker: func(around channel.Surroundings) push.Checker { return Checker{Topic: around.Public} },
		Open: func(channel.Process) (push.Sender, error) {
			return New(Config{
				Key: secret.New(s.Key), KeyID: s.KeyID, TeamID: s.TeamID, Topic: s.Topic, Host: host(s.Endpoint),
				Proxy: httpsend.ProxyConfig{URL: secret.New(s.Proxy), Setting: "--apns-proxy (PACER_APNS_PROXY)"},
			})
		},
	}
}

// Check refuses an endpoint or a proxy that can't be right.
func (s Settings) Check() error { return channel.CheckProvider(host(s.Endpoint), s.Proxy) }

// host is the base URL that the setting names.
func host(endpoint string) string {
	switch endpoint {
	case "", "production":
		return Production
	case "sandbox":
		return Sandbox
	}
	return endpoint
}
