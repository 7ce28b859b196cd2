package endpoints

import (
	"fmt"
	"time"

	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/plural"
)

// Health is what has become of the deliveries to an endpoint. All its moments are of the store's clock.
type Health struct {
	// LastSuccess and LastFailure are the latest of their kind that were noted. Failure is the latest failure's class
	// and code, Reply what the endpoint replied.
	LastSuccess time.Time `json:"last_success,omitzero"`
	LastFailure time.Time `json:"last_failure,omitzero"`
	Failure     string    `json:"failure,omitempty"`
	Reply       string    `json:"reply,omitempty"`
	// FailingSince is the first failure since the last success; zero while the endpoint takes what it is sent. Failures
	// counts the failed attempts since then. Parts is in how many parts of the time to disabling there was one, Part
	// the number of the latest.
	FailingSince time.Time `json:"failing_since,omitzero"`
	Failures     int       `json:"failures,omitempty"`
	Parts        int       `json:"parts,omitempty"`
	Part         int       `json:"part,omitempty"`
	// DisabledAt is since when nothing is sent to it, DisabledBecause why.
	DisabledAt      time.Time `json:"disabled_at,omitzero"`
	DisabledBecause string    `json:"disabled_because,omitempty"`
	// CountsFrom is the moment from which attempts say anything of it: when it was registered, enabled, or moved to
	// another URL.
	CountsFrom time.Time `json:"counts_from,omitzero"`
}

const (
	// parts are those of the time to disabling; leastParts of them must have a failure, and leastFailures attempts must
	// have failed in all: so one notification that fails now and then disables nothing.
	parts         = 5
	leastParts    = 3
	leastFailures = 10
)

// Disabled reports whether nothing is sent to it.
func (h *Health) Disabled() bool { return !h.DisabledAt.IsZero() }

// Failing reports whether its latest attempts failed.
func (h *Health) Failing() bool { return !h.FailingSince.IsZero() }

// FailingDays is for how many whole days it has done nothing but fail.
func (h *Health) FailingDays() int {
	if !h.Failing() {
		return 0
	}
	return int(h.LastFailure.Sub(h.FailingSince) / (24 * time.Hour))
}

// States of an endpoint.
const (
	StateOK       = "ok"
	StateFailing  = "failing"
	StateDisabled = "disabled"
)

// State is one of the three.
func (h *Health) State() string {
	switch {
	case h.Disabled():
		return StateDisabled
	case h.Failing():
		return StateFailing
	}
	return StateOK
}

// Words say how it does; "" when there is nothing to say.
func (h *Health) Words() string {
	switch {
	case h.Disabled():
		return fmt.Sprintf("is disabled since %s: %s", clock(h.DisabledAt), h.DisabledBecause)
	case h.Failing():
		return fmt.Sprintf("fails since %s: %s", clock(h.FailingSince), h.last())
	}
	return ""
}

// last describes the latest failure.
func (h *Health) last() string {
	text := fmt.Sprintf("%s failed, the latest with %s", plural.Of(h.Failures, "attempt", "attempts"), h.Failure)
	if h.Reply != "" {
		text += ": " + h.Reply
	}
	return text
}

// clock writes a moment for people.
func clock(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05Z") }

// Observation is what a process saw of deliveries to an endpoint. Its moments are of the store's clock.
type Observation struct {
	// Success is the latest delivery that the endpoint took.
	Success time.Time
	// FirstFailure and LastFailure are those since Success, Failures counts them. Failure is the latest one's class and
	// code, Reply what the endpoint replied.
	FirstFailure, LastFailure time.Time
	Failures                  int
	Failure, Reply            string
	// Gone is when it responded that it wants no more.
	Gone time.Time
}

// add adds what was seen later.
func (o *Observation) add(later Observation) {
	if !later.Success.IsZero() {
		*o = later
		return
	}
	if !later.Gone.IsZero() {
		o.Gone = later.Gone
	}
	if later.Failures == 0 {
		return
	}
	if o.Failures == 0 {
		o.FirstFailure = later.FirstFailure
	}
	o.LastFailure, o.Failures = later.LastFailure, o.Failures+later.Failures
	o.Failure, o.Reply = later.Failure, later.Reply
}

// note takes in what a process saw, however late it comes and in whatever order: a success is not undone by a failure
// before it. It disables the endpoint, and returns the event of that, when it did nothing but fail for so long (never,
// when that is 0) or wants no more. It enables the endpoint when a success that comes late shows that it did not only
// fail. The same observation noted twice counts once.
func (h *Health) note(id string, o Observation, now time.Time, disableAfter time.Duration) []events.Event {
	happened := h.noteSuccess(id, earlier(o.Success, now), disableAfter)
	h.noteFailures(o, earlier(o.LastFailure, now), disableAfter)
	if h.Disabled() {
		return happened
	}
	switch {
	case o.Gone.After(h.CountsFrom) && o.Gone.After(h.LastSuccess):
		h.DisabledBecause = becauseGone
	case disableAfter > 0 && h.Failing() && h.LastFailure.Sub(h.FailingSince) >= disableAfter &&
		h.Parts >= leastParts && h.Failures >= leastFailures:
		h.DisabledBecause = fmt.Sprintf("nothing was delivered from %s on: %s", clock(h.FailingSince), h.last())
	default:
		return happened
	}
	h.DisabledAt = now
	return append(happened, events.New(events.EndpointDisabled, id, h.DisabledBecause))
}

// noteSuccess takes in a success. Failures before it are forgotten, and with them that they disabled the endpoint.
func (h *Health) noteSuccess(id string, at time.Time, disableAfter time.Duration) (happened []events.Event) {
	if at.After(h.LastSuccess) && at.After(h.CountsFrom) {
		h.LastSuccess = at
	}
	if !h.Failing() || h.LastSuccess.Before(h.FailingSince) {
		return nil
	}
	failed := h.LastFailure
	h.recovered()
	if h.Disabled() && h.DisabledBecause != becauseGone {
		h.DisabledAt, h.DisabledBecause = time.Time{}, ""
		happened = append(happened, events.New(events.EndpointEnabled, id,
			"a delivery at "+clock(h.LastSuccess)+" succeeded, which was noted only now"))
	}
	if failed.After(h.LastSuccess) { // when the failures since then began, nobody knows
		h.fails(failed, failed, 1, disableAfter)
	}
	return happened
}

// noteFailures takes in failures, unless a success came after them.
func (h *Health) noteFailures(o Observation, last time.Time, disableAfter time.Duration) {
	if o.Failures == 0 || !last.After(h.LastSuccess) || !last.After(h.CountsFrom) || !last.After(h.LastFailure) {
		return
	}
	first, count := o.FirstFailure, o.Failures
	if !first.After(h.LastSuccess) || !first.After(h.CountsFrom) {
		first, count = last, 1
	}
	h.Failure, h.Reply = o.Failure, o.Reply
	h.fails(first, last, count, disableAfter)
}

// becauseGone is why an endpoint is disabled that responded with 410.
const becauseGone = "it responded with 410, which asks for no further calls"

// fails notes failed attempts.
func (h *Health) fails(first, last time.Time, count int, disableAfter time.Duration) {
	h.LastFailure = last
	h.Failures += count
	if !h.Failing() {
		h.FailingSince, h.Parts, h.Part = first, 1, 0
	}
	if part := disableAfter / parts; part > 0 {
		if number := int(last.Sub(h.FailingSince) / part); number > h.Part {
			h.Part, h.Parts = number, h.Parts+1
		}
	}
}

// recovered forgets the failures. The latest stays, for people to see.
func (h *Health) recovered() {
	h.FailingSince, h.Failures, h.Parts, h.Part = time.Time{}, 0, 0, 0
}

// startAgain forgets all that was seen before, also what comes late.
func (h *Health) startAgain(now time.Time) { *h = Health{CountsFrom: now} }

func earlier(a, b time.Time) time.Time {
	if a.After(b) {
		return b
	}
	return a
}
