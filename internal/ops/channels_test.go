package ops_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/push"
)

// Every process reports the hosts that it calls. The deployment shows each host once.
func TestAHostIsShownOnceForAllProcesses(t *testing.T) {
	t.Parallel()
	const hooks, other = "hooks.example", "other.example"
	got := ops.ChannelsOf([]string{"webhook", "log"}, []ops.Report{
		{Channels: []ops.Channel{{Channel: "webhook", Hosts: []push.Host{
			{Host: hooks, Breaker: "closed", InFlight: 3, Outcome: "delivered", OutcomeAt: at.Add(time.Second)},
			{Host: other, Breaker: "half-open", PausedUntil: at.Add(9 * time.Second)},
		}}}},
		{Channels: []ops.Channel{{Channel: "webhook", Hosts: []push.Host{
			{Host: hooks, Breaker: "open", InFlight: 4, PausedUntil: at.Add(42 * time.Second), Outcome: "transient: 503", OutcomeAt: at},
			{Host: other, Breaker: "closed", PausedUntil: at.Add(10 * time.Second)},
		}}}},
		{Channels: []ops.Channel{{Channel: "webhook", Hosts: []push.Host{{Host: hooks, Breaker: "half-open"}}}}},
	})
	want := []ops.Channel{
		{Channel: "log", Hosts: []push.Host{}},
		{Channel: "webhook", Hosts: []push.Host{
			{
				Host: hooks, Breaker: "open", InFlight: 7, PausedUntil: at.Add(42 * time.Second),
				Outcome: "delivered", OutcomeAt: at.Add(time.Second),
			},
			{Host: other, Breaker: "half-open", PausedUntil: at.Add(10 * time.Second)},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the channels differ (-want +got):\n%s", diff)
	}
}
