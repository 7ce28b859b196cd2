package app

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/gate"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// gated puts budgets, limits in flight and breakers before the senders of all channels that call a provider.
func (a *App) gated(senders push.Registry, channels channels) (push.Registry, error) {
	a.gates = map[notification.Channel]*gate.Gate{}
	all := push.Registry{}
	for name, sender := range senders {
		all[name] = sender
		descriptor := channels[name].Descriptor
		if descriptor.Local {
			continue
		}
		limits, err := settings.LimitsOf(descriptor)
		if err != nil {
			return nil, err
		}
		a.gates[name] = gate.New(sender, gate.Config{
			Channel: name, Host: descriptor.Host, InFlight: max(1, a.cfg.Concurrency*3/4), Budget: rulesOf(limits),
			PerTarget: descriptor.PerTarget, BudgetKey: hashed(descriptor.Credential), Log: a.log,
			Limiter: throttle.NewRedis(a.redis.Pipe, func(string) string {
				return "pacer:{provider-" + string(name) + "}:"
			}),
		})
		all[name] = a.gates[name]
	}
	return all, nil
}

// hashed stands for a credential in a key.
func hashed(credential string) string {
	sum := sha256.Sum256([]byte(credential))
	return hex.EncodeToString(sum[:8])
}
