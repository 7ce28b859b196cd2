package desk

import (
	"fmt"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/plural"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// wait is what a notification waits for.
type wait struct {
	state State
	words string
	// at is when it goes out; zero when only people can tell, or when it never does.
	at time.Time
}

// waitOf says what a waiting notification waits for. It is the one place that puts that into words.
func (s *situation) waitOf(v *notification.View) wait {
	channel := string(v.Channel)
	if out := s.optedOut(v.Category, channel); out != "" {
		return wait{state: StateOptedOut, words: out + ": it ends as cancelled, reason " + notification.ReasonOptedOut}
	}
	if s.removed(v.Category) {
		words := removedWords + ": it waits until it is back"
		if !v.ExpiresAt.IsZero() {
			words += ", or expires at " + moment(v.ExpiresAt)
		}
		return wait{state: StateRemoved, words: words}
	}
	if p := s.pause(v.Category, channel); p != nil {
		return wait{state: StatePaused, words: pausedBy(p) + ": it waits until somebody resumes it"}
	}
	if v.Doomed {
		return wait{state: stateOf(v), words: v.Detail}
	}
	if s.redisAway {
		return wait{state: stateOf(v), words: s.obstacle()}
	}
	w := s.waitForTime(v)
	switch {
	case s.fleet.Workers == 0:
		w.words += ", and no worker is alive"
		w.at = time.Time{}
	case s.fleet.RedisFull && w.state == StateQueued:
		return wait{state: w.state, words: s.obstacle()}
	case s.fleet.RedisFull:
		w.words += ", if Redis, which is full, has room by then"
	}
	return w
}

// waitForTime says what a notification waits for that nobody holds back: a moment, or a worker.
func (s *situation) waitForTime(v *notification.View) wait {
	at, when := v.DeliverAt, "at "+moment(v.DeliverAt)
	if !at.After(s.now) {
		at, when = s.now, "now"
	}
	w, goes := wait{state: stateOf(v), at: at}, ", goes out "+when
	if v.Estimate {
		goes = ", goes out not before " + moment(at)
	}
	switch w.state {
	case StateHeld:
		w.words = fmt.Sprintf("waits for its provider: %s; next try %s", s.fleet.whyHeld(v), when)
	case StateRetrying:
		w.words = fmt.Sprintf("an attempt failed (%s%s), next attempt %s", v.Reason, atHost(v), when)
	case StateScheduled:
		w.words = "scheduled" + goes
	case StateDeferred:
		w.words = "deferred"
		switch {
		case v.Reason == notification.ReasonDigest:
			w.words = "waits for others to go with it as one message"
		case v.Reason == notification.ReasonQuietHours && v.Detail != "":
			w.words += " by " + v.Detail
		case v.Reason != "":
			w.words += " by " + s.whose(v) + v.Reason
		}
		w.words += goes
	default:
		w.words = "waits for a worker"
		switch {
		case s.fleet.Workers == 0:
		case s.fleet.busy():
			w.words += fmt.Sprintf(": all are busy, with %s under way, the most they may have",
				plural.Of(s.fleet.InFlight, "delivery", "deliveries"))
		default:
			w.words += goes
		}
	}
	return w
}

// whose says of a rule that defers a notification that it is the user's own; "" of one of the policy.
func (s *situation) whose(v *notification.View) string {
	is := func(r throttle.Rule) bool { return r.String() == v.Reason }
	if slices.ContainsFunc(s.policy.Settings("", v.Category).Plan.Rules, is) ||
		!slices.ContainsFunc(s.policy.Settings(s.userID, v.Category).Plan.CategoryRules(), is) {
		return ""
	}
	return "the user's own "
}

// atHost names the host that a notification goes to, where it is known.
func atHost(v *notification.View) string {
	if host := notification.HostOf(v.To); host != "" {
		return " at " + host
	}
	return ""
}

// stateOf is the state of a category whose first this notification is.
func stateOf(v *notification.View) State {
	switch v.Status {
	case notification.StatusScheduled:
		return StateScheduled
	case notification.StatusDeferred:
		return StateDeferred
	case notification.StatusRetrying:
		if v.Held {
			return StateHeld
		}
		return StateRetrying
	default:
		return StateQueued
	}
}
