package push

import (
	"fmt"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/timespan"
)

// Host is what one process knows of a host that a channel calls, or what all processes know of it together. It is the
// form in which the ops pages tell it.
type Host struct {
	// Host is its name; "" where the channel has only one provider.
	Host string `json:"host,omitempty"`
	// Breaker is closed, open or half-open; OpenSince is since when it has not been closed.
	Breaker   string    `json:"breaker"`
	OpenSince time.Time `json:"open_since,omitzero"`
	InFlight  int       `json:"in_flight"`
	// PausedUntil is when it is called again after it refused the credentials, or asked the whole channel to slow down.
	PausedUntil time.Time `json:"paused_until,omitzero"`
	// NextTry is when an open breaker lets the next call pass.
	NextTry time.Time `json:"next_try,omitzero"`
	// Outcome is what became of the latest call, OutcomeAt when; Failing tells that it failed, and says nothing good of
	// the host.
	Outcome   string    `json:"outcome,omitempty"`
	OutcomeAt time.Time `json:"outcome_at,omitzero"`
	Failing   bool      `json:"failing,omitempty"`
}

// The states of a breaker.
const (
	BreakerClosed   = "closed"
	BreakerHalfOpen = "half-open"
	BreakerOpen     = "open"
)

// Health says in words whether the host is called. clock writes a moment.
func (h *Host) Health(now time.Time, clock func(time.Time) string) string {
	switch {
	case h.PausedUntil.After(now):
		return "not called until " + clock(h.PausedUntil)
	case h.Breaker == BreakerOpen && h.NextTry.After(now):
		return "not called until " + clock(h.NextTry)
	case h.Breaker == BreakerOpen || h.Breaker == BreakerHalfOpen:
		return "trying one call"
	case h.Failing:
		return "calling, the latest call failed"
	}
	return "calling"
}

// Trouble says why the host is not called, with the cause; "" when it is.
func (h *Host) Trouble(now time.Time) string {
	name := h.Host
	if name == "" {
		name = "the provider"
	}
	switch {
	case h.PausedUntil.After(now):
		return fmt.Sprintf("%s is not called for another %s (%s)", name, timespan.Seconds(h.PausedUntil.Sub(now)), h.last())
	case h.Breaker == BreakerOpen || h.Breaker == BreakerHalfOpen:
		return fmt.Sprintf("%s is not called (breaker open for %s, %s)", name, timespan.Seconds(now.Sub(h.OpenSince)), h.last())
	}
	return ""
}

// last says how the latest call ended: a class and a code, such as "transient: 503".
func (h *Host) last() string {
	class, code, found := strings.Cut(h.Outcome, ": ")
	proxied, isProxy := strings.CutPrefix(code, "proxy")
	switch {
	case h.Outcome == "":
		return "no reply yet"
	case isProxy && proxied == "":
		return "its proxy cannot be reached"
	case isProxy && proxied == ".timeout":
		return "its proxy does not respond"
	case isProxy:
		return "its proxy responds with " + strings.TrimPrefix(proxied, ".")
	case class == CredentialsRefused.String():
		return "it refuses the credentials: " + code
	case class == Throttled.String():
		return "it asks to slow down: " + code
	case found && strings.Trim(code, "0123456789") == "":
		return "last reply " + code
	case found:
		return "last error " + code
	}
	return "last outcome " + h.Outcome
}

// Breakers counts the hosts of a channel whose circuit breaker is not closed.
type Breakers struct {
	Channel notification.Channel
	// OfTargets is true when targets name the hosts, and false when they are the provider's.
	OfTargets bool
	Open      int
}
