package teams

import (
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Name is the channel's name.
const Name notification.Channel = "teams"

// Settings of the channel. Their flags begin with --teams-.
type Settings struct {
	// Hosts are where workflows may be: *.logic.azure.com, *.powerplatform.com; *.webhook.office.com for connectors.
	Hosts []string `name:"hosts" example:"*.logic.azure.com" placeholder:"HOST" help:"Microsoft Teams: hosts that workflows may be at, such as *.logic.azure.com and *.powerplatform.com."`
	// Limits are how often all processes together may call workflows, such as 600000/1m. Default to none.
	Limits []string `name:"limits" example:"100/1s" placeholder:"N/DURATION" help:"Calls to Teams, over all processes. Default: none."`
}

// Channel describes the channel with these settings.
func (s Settings) Channel() channel.Descriptor {
	hosts := httpsend.Hosts(s.Hosts)
	return channel.Descriptor{
		Name:       Name,
		Configured: len(s.Hosts) > 0,
		OwnFormat:  "On this channel: a JSON object that is laid over the Adaptive Card, such as body, actions or msteams.",
		OwnFields:  Fields,
		Host:       httpsend.HostOf,
		// What Teams takes for one webhook.
		PerTarget: []throttle.Rule{{Max: 4, Per: time.Second}},
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
			Setting: "hosts", Message: "must hold names of hosts without scheme, port or path, such as *.logic.azure.com",
		}
	}
	return nil
}
