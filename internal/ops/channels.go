package ops

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// channelsOf joins what the processes report of the channels with these names. Each host is there once, however many
// processes call it.
func channelsOf(names []string, reports []Report) []Channel {
	hosts := map[string]map[string]Host{} // by channel and name
	for _, name := range names {
		hosts[name] = map[string]Host{}
	}
	for _, report := range reports {
		for _, c := range report.Channels {
			if hosts[c.Channel] == nil {
				hosts[c.Channel] = map[string]Host{}
			}
			for _, h := range c.Hosts {
				hosts[c.Channel][h.Host] = hosts[c.Channel][h.Host].join(h)
			}
		}
	}
	channels := make([]Channel, 0, len(hosts))
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		channel := Channel{Channel: name, Hosts: []Host{}}
		for _, host := range slices.Sorted(maps.Keys(hosts[name])) {
			channel.Hosts = append(channel.Hosts, hosts[name][host])
		}
		channels = append(channels, channel)
	}
	return channels
}

// join adds what another process says of the same host: its calls in flight, the worse breaker, the longer pause and
// the later outcome.
func (h Host) join(other Host) Host {
	h.Host = other.Host
	h.InFlight += other.InFlight
	if breakerRank(other.Breaker) > breakerRank(h.Breaker) {
		h.Breaker = other.Breaker
	}
	if pause(other.PausedFor) > pause(h.PausedFor) {
		h.PausedFor = other.PausedFor
	}
	if other.OutcomeAt.After(h.OutcomeAt) {
		h.Outcome, h.OutcomeAt = other.Outcome, other.OutcomeAt
	}
	return h
}

// breakerRank is the higher, the less a breaker lets through; 0 without one.
func breakerRank(state string) int {
	return slices.Index([]string{"", "closed", "half-open", "open"}, state)
}

// pause reads how long a host stays paused; 0 when it is not.
func pause(text string) time.Duration {
	d, err := time.ParseDuration(cmp.Or(text, "0s"))
	if err != nil {
		return 0 // of another version
	}
	return d
}
