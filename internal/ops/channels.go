package ops

import (
	"maps"
	"slices"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/push"
)

// ChannelsHere are the channels with these names as this process sees them; states lists the hosts of a channel.
func ChannelsHere(names []string, states func(name string) []push.Host) []Channel {
	all := make([]Channel, 0, len(names))
	for _, name := range names {
		all = append(all, Channel{Channel: name, Hosts: append([]push.Host{}, states(name)...)})
	}
	return all
}

// channelsOf joins what the processes report of the channels with these names. Each host is there once, however many
// processes call it.
func channelsOf(names []string, reports []Report) []Channel {
	hosts := map[string]map[string]push.Host{} // by channel and name
	for _, name := range names {
		hosts[name] = map[string]push.Host{}
	}
	for _, report := range reports {
		for _, c := range report.Channels {
			if hosts[c.Channel] == nil {
				hosts[c.Channel] = map[string]push.Host{}
			}
			for _, h := range c.Hosts {
				hosts[c.Channel][h.Host] = join(hosts[c.Channel][h.Host], h)
			}
		}
	}
	channels := make([]Channel, 0, len(hosts))
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		channel := Channel{Channel: name, Hosts: []push.Host{}}
		for _, host := range slices.Sorted(maps.Keys(hosts[name])) {
			channel.Hosts = append(channel.Hosts, hosts[name][host])
		}
		channels = append(channels, channel)
	}
	return channels
}

// join adds what another process says of the same host: its calls in flight, the worse breaker and since when, the
// longer pause and the later outcome.
func join(h, other push.Host) push.Host {
	h.Host = other.Host
	h.InFlight += other.InFlight
	if breakerRank(other.Breaker) > breakerRank(h.Breaker) {
		h.Breaker, h.NextTry = other.Breaker, other.NextTry
	}
	if h.OpenSince.IsZero() || !other.OpenSince.IsZero() && other.OpenSince.Before(h.OpenSince) {
		h.OpenSince = other.OpenSince
	}
	if other.PausedUntil.After(h.PausedUntil) {
		h.PausedUntil = other.PausedUntil
	}
	if other.OutcomeAt.After(h.OutcomeAt) {
		h.Outcome, h.OutcomeAt, h.Failing = other.Outcome, other.OutcomeAt, other.Failing
	}
	return h
}

// breakerRank is the higher, the less a breaker lets through; 0 without one.
func breakerRank(state string) int {
	return slices.Index([]string{"", push.BreakerClosed, push.BreakerHalfOpen, push.BreakerOpen}, state)
}

// markPaused notes which of the channels operators paused.
func markPaused(channels []Channel, pauses []control.Pause) {
	for i := range channels {
		for _, p := range pauses {
			if p.Kind == control.Channel && p.Name == channels[i].Channel {
				channels[i].Paused = &p
			}
		}
	}
}
