package ops_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/ops"
)

// Every process reports the hosts that it calls. The deployment shows each host once.
func TestAHostIsShownOnceForAllProcesses(t *testing.T) {
	t.Parallel()
	const hooks, other = "hooks.example", "other.example"
	got := ops.ChannelsOf([]string{"webhook", "log"}, []ops.Report{
		{Channels: []ops.Channel{{Channel: "webhook", Hosts: []ops.Host{
			{Host: hooks, Breaker: "closed", InFlight: 3, Outcome: "delivered", OutcomeAt: at.Add(time.Second)},
			{Host: other, Breaker: "half-open", PausedFor: "9s"},
		}}}},
		{Channels: []ops.Channel{{Channel: "webhook", Hosts: []ops.Host{
			{Host: hooks, Breaker: "open", InFlight: 4, PausedFor: "42s", Outcome: "transient: 503", OutcomeAt: at},
			{Host: other, Breaker: "closed", PausedFor: "10s"},
		}}}},
		{Channels: []ops.Channel{{Channel: "webhook", Hosts: []ops.Host{{Host: hooks, Breaker: "half-open"}}}}},
	})
	want := []ops.Channel{
		{Channel: "log", Hosts: []ops.Host{}},
		{Channel: "webhook", Hosts: []ops.Host{
			{
				Host: hooks, Breaker: "open", InFlight: 7, PausedFor: "42s",
				Outcome: "delivered", OutcomeAt: at.Add(time.Second),
			},
			{Host: other, Breaker: "half-open", PausedFor: "10s"},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the channels differ (-want +got):\n%s", diff)
	}
}
