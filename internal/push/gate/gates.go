package gate

import (
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// Gates are those of a process, by their channels.
type Gates map[notification.Channel]*Gate

// States lists the hosts of a channel, as [Gate.States] does; none where the channel has no gate.
func (all Gates) States(channel string) []push.Host {
	if g, ok := all[notification.Channel(channel)]; ok {
		return g.States()
	}
	return nil
}

// Breakers counts, for each channel, the hosts that are not called because they failed.
func (all Gates) Breakers() []push.Breakers {
	list := make([]push.Breakers, 0, len(all))
	for channel, g := range all {
		list = append(list, push.Breakers{Channel: channel, OfTargets: g.ofTargets, Open: g.Open()})
	}
	return list
}

// Renew tells the gate of a channel that its sender has another credential; see [Gate.Renew].
func (all Gates) Renew(channel notification.Channel, budgetKey string) (resumed bool) {
	g, ok := all[channel]
	return ok && g.Renew(budgetKey)
}
