package app

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/gate"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// fcmPerDevice is what FCM takes for one device.
var fcmPerDevice = []throttle.Rule{{Max: 240, Per: time.Minute}, {Max: 5000, Per: time.Hour}}

// gated puts budgets, limits in flight and breakers before the senders of all channels that call a provider.
func (a *App) gated(senders push.Registry) (push.Registry, error) {
	a.gates = map[notification.Channel]*gate.Gate{}
	all := push.Registry{}
	for channel, sender := range senders {
		all[channel] = sender
		if channel == notification.ChannelLog {
			continue
		}
		limits, err := a.cfg.Channels.Limits(string(channel))
		if err != nil {
			return nil, err
		}
		cfg := gate.Config{
			Channel: channel, Host: hostOf(channel), InFlight: max(1, a.cfg.Concurrency*3/4), Budget: rulesOf(limits),
			BudgetKey: credentialOf(a.cfg.Channels, channel), Log: a.log,
			Limiter: throttle.NewRedis(a.redis.pipe, func(string) string {
				return "pacer:{provider-" + string(channel) + "}:"
			}),
		}
		if channel == notification.ChannelFCM {
			cfg.PerTarget = fcmPerDevice
		}
		a.gates[channel] = gate.New(sender, cfg)
		all[channel] = a.gates[channel]
	}
	return all, nil
}

// hostOf tells which host a target of the channel is on; channels with one provider have one.
func hostOf(channel notification.Channel) func(to string) string {
	switch channel {
	case notification.ChannelWebhook:
		return hostOfURL
	case notification.ChannelWebPush:
		return func(to string) string {
			var subscription struct{ Endpoint string }
			if json.Unmarshal([]byte(to), &subscription) != nil {
				return ""
			}
			return hostOfURL(subscription.Endpoint)
		}
	case notification.ChannelLog, notification.ChannelFCM, notification.ChannelAPNs, notification.ChannelEmail:
	}
	return nil
}

func hostOfURL(to string) string {
	u, err := url.Parse(to)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// credentialOf stands for the credential that a channel's budget belongs to.
func credentialOf(c settings.Channels, channel notification.Channel) string {
	var credential string
	switch channel {
	case notification.ChannelFCM:
		credential = c.FCMProject + c.FCMCredentials
	case notification.ChannelAPNs:
		credential = c.APNsTeamID + c.APNsKeyID
	case notification.ChannelWebPush:
		credential = c.WebPushKey
	case notification.ChannelEmail:
		credential = c.EmailServer
	case notification.ChannelWebhook, notification.ChannelLog:
	}
	sum := sha256.Sum256([]byte(credential))
	return hex.EncodeToString(sum[:8])
}
