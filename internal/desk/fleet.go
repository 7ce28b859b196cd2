package desk

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/timespan"
)

// Fleet is what the processes of a deployment report, together.
type Fleet struct {
	// Workers counts the processes that deliver. InFlight counts their deliveries; Concurrency is how many there may
	// be.
	Workers, InFlight, Concurrency int
	// ClockAhead is by how much the process's clock that differs most is ahead of Redis's.
	ClockAhead time.Duration
	// RedisFull says that Redis has hardly any memory left.
	RedisFull bool
	// Troubles are the hosts that are not called, once for each process that says so.
	Troubles []Trouble
}

// Trouble is a host that is not called. Host is "" where the channel has only one provider. Words name the host, and
// why.
type Trouble struct{ Channel, Host, Words string }

// clocksApart is from when on two clocks differ.
const clocksApart = 2 * time.Second

// busy reports whether no further delivery may begin.
func (f Fleet) busy() bool { return f.Concurrency > 0 && f.InFlight >= f.Concurrency }

// clocks says that clocks differ; "" when none does.
func (f Fleet) clocks() string {
	if f.ClockAhead.Abs() < clocksApart {
		return ""
	}
	return fmt.Sprintf("the clocks of Redis and of a process are %s apart, so times shown here are wrong",
		timespan.Seconds(f.ClockAhead.Abs()))
}

// heldWords say what a notification waits for, by the reason that keeps it from its provider.
var heldWords = map[string]string{
	"breaker_open":    "its host is not called for now, because calls to it failed",
	"channel_paused":  "its host is not called for now, because it refused the credentials or asked to slow down",
	"provider_busy":   "its host has as many calls under way as it may have",
	"category_busy":   "its category has as many deliveries in flight as it may have",
	"channel_busy":    "its channel has as many deliveries in flight as it may have",
	"provider_budget": "the limit of its channel is used up",
	"target_budget":   "the limit of its target is used up",
	"budget_unknown":  "Redis did not say whether the limit of its channel has room",
}

// whyHeld says why a notification waits for its provider.
func (f Fleet) whyHeld(v *notification.View) string {
	_, code, _ := strings.Cut(v.Reason, ": ")
	words := cmp.Or(heldWords[code], v.Reason)
	if code != "breaker_open" && code != "channel_paused" {
		return words
	}
	only := map[string]string{} // words by host
	for _, t := range f.Troubles {
		if t.Channel != string(v.Channel) {
			continue
		}
		if t.Host != "" && strings.Contains(v.To, t.Host) {
			return t.Words
		}
		only[t.Host] = t.Words
	}
	if len(only) != 1 {
		return words
	}
	for _, of := range only {
		words = of
	}
	return words
}

// obstacle says what keeps everything from going out; "" when nothing does.
func (s *situation) obstacle() string {
	switch {
	case s.redisAway:
		return "Redis does not respond: nothing goes out until it does"
	case s.fleet.Workers == 0:
		return "no worker is alive: nothing goes out until one is started"
	case s.fleet.RedisFull:
		return "Redis is full: nothing new gets in, and what waits may not go out, until it has room again"
	}
	return ""
}
