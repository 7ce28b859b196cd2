package fcm

import (
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Name is the channel's name.
const Name notification.Channel = "fcm"

// Settings of the channel. Their flags begin with --fcm-.
type Settings struct {
	// Credentials are a service account's key in JSON.
	Credentials string `name:"credentials" example:"{service-account}" credential:"" placeholder:"JSON|file:PATH" json:"-" help:"Firebase Cloud Messaging: a service account's key."`
	// Project is the Firebase project. Defaults to the service account's.
	Project string `name:"project" example:"demo" needs:"credentials" placeholder:"ID" help:"Firebase project. Default: the service account's."`
	// Endpoint is the service's base URL. Defaults to Google's.
	Endpoint string `name:"endpoint" example:"https://fcm.example.com" needs:"credentials" placeholder:"URL" help:"Another base URL of FCM."`
	// Proxy is a proxy's URL, user and password included. Defaults to none, whatever the environment says.
	Proxy string `name:"proxy" example:"http://pacer:fcm-proxy@proxy.example.com:3128" credential:"" needs:"credentials" placeholder:"URL|file:PATH" json:"-" help:"Proxy for FCM, http://[user:password@]host:port or https://... Default: none."`
	// Limits are how often FCM may be called, over all processes. Default to what Google gives a project.
	Limits []string `name:"limits" example:"100/1s" default:"600000/1m" placeholder:"N/DURATION" help:"Calls to FCM, over all processes. Default: ${default}."`
}

// Channel describes the channel with these settings.
func (s Settings) Channel() channel.Descriptor {
	return channel.Descriptor{
		Name:       Name,
		Configured: s.Credentials != "",
		OwnFormat:  "On this channel: a JSON object that is laid over FCM's message.",
		OwnFields:  Fields,
		// What FCM takes for one device.
		PerTarget:  []throttle.Rule{{Max: 240, Per: time.Minute}, {Max: 5000, Per: time.Hour}},
		Limits:     s.Limits,
		Delivery:   channel.DeliveryOfPush(),
		Credential: s.Project + s.Credentials,
		Responses:  responses,
		NewChecker: func(channel.Surroundings) push.Checker { return Checker{} },
		Open: func(channel.Process) (push.Sender, error) {
			return New(Config{
				Credentials: secret.New(s.Credentials), Project: s.Project, Endpoint: s.Endpoint,
				Proxy: httpsend.ProxyConfig{URL: secret.New(s.Proxy), Setting: "--fcm-proxy (PACER_FCM_PROXY)"},
			})
		},
	}
}

// Check refuses an endpoint or a proxy that can't be right.
func (s Settings) Check() error { return channel.CheckProvider(s.Endpoint, s.Proxy) }
