package gate

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/pacer-notify/pacer/internal/push"
)

const (
	// probeEvery is how often all processes together try a host whose breaker is open.
	probeEvery = time.Second
	// tripAfter failures in a row open the breaker, and so does the failure of more than half of at least tripOf calls
	// within tripWindow. The window is longer than a call may take: the breaker counts a result at the moment when the
	// call began.
	tripAfter  = 10
	tripOf     = 40
	tripWindow = 90 * time.Second
	// maxOpenWait is the longest that deliveries wait before they ask again whether the host is back, and
	// maxStrangerWait before they ask for a place among the hosts that are not known to respond.
	maxOpenWait, maxStrangerWait = 30 * time.Second, time.Minute
	// firstShare divides a host's places: so many are open at first, and after any number of failures, but not fewer
	// than firstPlaces. With these a host that hangs for ten seconds each time opens its breaker.
	firstShare, firstPlaces = 32, 4
	// trusted is how long the calls to a host that responded may be silent before it counts as a stranger again.
	trusted = 2 * time.Second
)

// outcome is what a call says of its host.
type outcome int

const (
	notCalled outcome = iota
	// responded is any response, a refusal included.
	responded
	// dripping is a response that took long, or whose body did not end.
	dripping
	// slowed is a response by which the host asks to slow down.
	slowed
	failed
)

// outcomeOf tells by whom a failure concerns what it says of the host.
func outcomeOf(failure *push.Error) outcome {
	switch {
	case failure == nil || failure.Whom() != push.ConcernsHost:
		return responded
	case failure.Class == push.Throttled:
		return slowed
	}
	return failed
}

// err is the outcome in the form that the breaker expects.
func (o outcome) err() error {
	if o == failed {
		return errFailed
	}
	return nil
}

var errFailed = errors.New("the call failed")

// host is a host that calls go to.
type host struct {
	name      string
	breaker   *gobreaker.TwoStepCircuitBreaker[any]
	room      *room
	strangers *room // what all hosts share that are not known to respond

	mu        sync.Mutex
	responds  bool      // the latest call had a response to its end
	bounced   time.Time // since when there was no place among the strangers; zero when there was one
	openSince time.Time // zero while the breaker is closed
	opened    time.Time // when it opened last: it lets no call pass for probeEvery
	pause     pause
	evidence  evidence
	told      time.Time // when the log last told of refused credentials
	renewed   time.Time // when the credential was last replaced
	used      time.Time
	latest    string // the outcome of the latest call, when it came, and how many failed in a row up to it
	latestAt  time.Time
	failures  int
}

// changed notes since when the breaker is not closed.
func (h *host) changed(to gobreaker.State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch to {
	case gobreaker.StateClosed:
		h.openSince = time.Time{}
	case gobreaker.StateOpen, gobreaker.StateHalfOpen:
		if h.openSince.IsZero() {
			h.openSince = time.Now()
		}
		if to == gobreaker.StateOpen {
			h.opened = time.Now()
		}
	}
}

// openWait is how long deliveries wait while the host is away: the longer it has been away, the longer they wait.
func (h *host) openWait() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.openSince.IsZero() {
		return probeEvery
	}
	return min(max(time.Since(h.openSince)/2, probeEvery), maxOpenWait)
}

// enter takes a place for a call: one of the host's, and one of the strangers' where it is not known to respond. It
// waits for them no longer than the deadline allows. When there is none, it returns how long to stay away. The function
// that it returns leaves the place.
func (h *host) enter(ctx context.Context, deadline *push.Deadline) (leave func(outcome), wait time.Duration) {
	if !h.room.enter(ctx, deadline.Left(silentAfter)) {
		return nil, h.silentWait()
	}
	stranger := !h.known()
	if stranger && !h.strangers.enter(ctx, deadline.Left(silentAfter)) {
		h.room.leave(notCalled)
		return nil, h.strangerWait()
	}
	return func(o outcome) {
		h.left(o)
		h.room.leave(o)
		if !stranger {
			return
		}
		if o == failed || o == notCalled {
			h.strangers.leave(notCalled)
		} else {
			h.strangers.leave(dripping) // somebody was heard; how many places are open stays
		}
	}, 0
}

// known reports whether the host responds, as far as anybody knows.
func (h *host) known() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.responds && h.room.silent() < trusted
}

// left notes what a call said of the host.
func (h *host) left(o outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch o {
	case responded, slowed:
		h.responds, h.bounced = true, time.Time{}
	case failed, dripping:
		h.responds, h.bounced = false, time.Time{}
	case notCalled:
	}
}

// silentWait is how long deliveries stay away from a host without room: the longer it has been silent, the longer they
// stay away.
func (h *host) silentWait() time.Duration {
	return min(max(h.room.silent()/2, busyWait), maxOpenWait)
}

// strangerWait is how long deliveries stay away from a host that got no place among the strangers: as long as it has
// had none.
func (h *host) strangerWait() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.bounced.IsZero() {
		h.bounced = time.Now()
	}
	return min(max(time.Since(h.bounced), busyWait), maxStrangerWait)
}

// pausedFor is how long the host stays paused; with 0 it may be called. trial tells that the call tries whether the
// pause is over.
func (h *host) pausedFor(now time.Time) (wait time.Duration, trial bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pause.wait(now)
}

// tried notes what became of a call that tried whether a pause is over.
func (h *host) tried(o outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pause.tried(time.Now(), o)
}

// renew forgets what was said of a credential that is in force no more, and reports whether the host was paused for it.
// A pause that the provider asked for stays.
func (h *host) renew() (resumed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.evidence, h.told, h.renewed = evidence{}, time.Time{}, time.Now()
	if h.pause.until.IsZero() || h.pause.asked {
		return false
	}
	h.pause = pause{}
	return true
}

// outdated reports whether a call that began then was refused with a credential that has been replaced since.
func (h *host) outdated(began time.Time, failure *push.Error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return failure != nil && failure.Class == push.CredentialsRefused && began.Before(h.renewed)
}

// tell reports whether the log may tell of refused credentials again. h.mu is held.
func (h *host) tell(now time.Time, every time.Duration) bool {
	if now.Sub(h.told) < every {
		return false
	}
	h.told = now
	return true
}

// note remembers the outcome of the latest call.
func (h *host) note(outcome string, failing bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.latest, h.latestAt = outcome, time.Now()
	if h.failures++; !failing {
		h.failures = 0
	}
}

// failedInARow is how many calls have failed since the latest one that did not. The breaker counts only those that
// began within tripWindow: too few where a host has few places and each call hangs for long.
func (h *host) failedInARow() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failures
}

// state is what operators see of the host.
func (h *host) state(breaker gobreaker.State) push.Host {
	calls := h.room.inFlight()
	h.mu.Lock()
	defer h.mu.Unlock()
	state := push.Host{
		Host: h.name, Breaker: breaker.String(), OpenSince: h.openSince, InFlight: calls, Outcome: h.latest,
		OutcomeAt: h.latestAt, Failing: h.failures > 0,
	}
	if time.Until(h.pause.until) > 0 {
		state.PausedUntil = h.pause.until.UTC()
	}
	if breaker == gobreaker.StateOpen {
		state.NextTry = h.opened.Add(probeEvery).UTC()
	}
	return state
}
