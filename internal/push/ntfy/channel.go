package ntfy

import (
	"net/url"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/secret"
)

// Name is the channel's name.
const Name notification.Channel = "ntfy"

// Settings of the channel. Their flags begin with --ntfy-.
type Settings struct {
	// Server is the base URL of the ntfy server.
	Server string `name:"server" example:"https://ntfy.sh" placeholder:"URL" help:"ntfy: base URL of the server, such as https://ntfy.sh."`
	// Token is an access token for that server. Defaults to none: pacer publishes as anybody could.
	Token string `name:"token" example:"tk_0123456789" credential:"" needs:"server" placeholder:"TOKEN|file:PATH" json:"-" help:"ntfy: access token for --ntfy-server (tk_...)."`
	// Limits are how often all processes together may call ntfy servers, such as 600000/1m. Default to none.
	Limits []string `name:"limits" example:"100/1s" placeholder:"N/DURATION" help:"Calls to ntfy servers, over all processes. Default: none."`
}

// Channel describes the channel with these settings.
func (s Settings) Channel() channel.Descriptor {
	return channel.Descriptor{
		Name:       Name,
		Configured: s.Server != "",
		OwnFormat:  "On this channel: a JSON object that is laid over what is published, such as tags, click, icon or actions.",
		OwnFields:  Fields,
		Host: func(to string) string {
			if isTopic(to) {
				to = s.Server
			}
			return httpsend.HostOf(to)
		},
		Limits:     s.Limits,
		Delivery:   channel.DeliveryOfPush(),
		Credential: s.Server + s.Token,
		Public:     s.Server,
		Responses:  responses,
		NewChecker: func(around channel.Surroundings) push.Checker {
			return Checker{Server: around.Public, CheckURL: around.CheckURL}
		},
		Open: func(process channel.Process) (push.Sender, error) {
			return New(Config{Server: s.Server, Token: secret.New(s.Token), GuardedConfig: process.Targets})
		},
	}
}

// Check refuses a server that is not a base URL.
func (s Settings) Check() error {
	if s.Server == "" {
		return nil
	}
	server, err := url.Parse(s.Server)
	if err != nil || server.Scheme != "http" && server.Scheme != "https" || server.Host == "" || server.User != nil ||
		server.Path != "" && server.Path != "/" || server.RawQuery != "" || server.Fragment != "" {
		return &channel.SettingError{Setting: "server", Message: "must be a URL such as https://ntfy.sh, without a path"}
	}
	return nil
}
