package slack

import (
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Name is the channel's name.
const Name notification.Channel = "slack"

// Settings of the channel. Their flags begin with --slack-.
type Settings struct {
	// Hosts are where webhooks may be: hooks.slack.com, hooks.slack-gov.com, or a server that takes the same messages.
	Hosts []string `name:"hosts" example:"hooks.slack.com" placeholder:"HOST" help:"Slack: hosts that incoming webhooks may be at, such as hooks.slack.com."`
	// Limits are how often all processes together may call Slack, such as 600000/1m. Default to none.
	Limits []string `name:"limits" example:"100/1s" placeholder:"N/DURATION" help:"Calls to Slack, over all processes. Default: none."`
}

// Channel describes the channel with these settings.
func (s Settings) Channel() channel.Descriptor {
	hosts := httpsend.Hosts(s.Hosts)
	return channel.Descriptor{
		Name:       Name,
		Configured: len(s.Hosts) > 0,
		OwnFormat: "On this channel: a JSON object that is laid over Slack's message, such as blocks or attachments. " +
			"What it holds is not escaped.",
		OwnFields: Fields,
		Host:      httpsend.HostOf,
		// What Slack takes for one webhook.
		PerTarget: []throttle.Rule{{Max: 1, Per: time.Second}},
		Limits:    s.Limits,
		Delivery:  channel.DeliveryOfPush(),
		Public:    hosts.String(),
		Responses: responses,
		NewChecker: func(around channel.Surroundings) push.Checker {
			return Checker{Hosts: httpsend.ReadHosts(around.Public), CheckURL: around.CheckURL}
		},
		Open: func(process channel.Process) (push.Sender, error) {
			return New(httpsend.HookConfig{Hosts: hosts, GuardedConfig: process.Targets})
		},
	}
}

// Check refuses hosts that are none.
func (s Settings) Check() error {
	if !httpsend.Hosts(s.Hosts).Valid() {
		return &channel.SettingError{
			Setting: "hosts", Message: "must hold names of hosts without scheme, port or path, such as hooks.slack.com",
		}
	}
	return nil
}
