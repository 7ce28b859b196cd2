package gate

import (
	"cmp"
	"context"
	"errors"
	"slices"
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
	tripWindow = 30 * time.Second
	// maxOpenWait is the longest that deliveries wait before they ask again whether the host is back.
	maxOpenWait = 30 * time.Second
	// maxHosts is how many hosts are remembered. There has to be a bound, since targets come from input.
	maxHosts = 10_000
	// enterWait is how long a call waits for room on a host that responds, so that a healthy crowd keeps its order.
	enterWait = 2 * time.Second
	// silentAfter is how long a host may leave all calls in flight without a response before nobody waits for room on
	// it any more. A call that waits takes the dispatcher's room from other hosts.
	silentAfter = 250 * time.Millisecond
	// firstShare divides the room: a host begins with that share of its places. Each response opens one more place,
	// each failure closes one, as in TCP's slow start.
	firstShare = 8
)

// outcome is what a call says of its host.
type outcome int

const (
	notCalled outcome = iota
	// responded is any response, a refusal included.
	responded
	failed
)

func outcomeOf(failure *push.Error) outcome {
	if failure != nil && (failure.Class == push.Transient || failure.Class == push.Ambiguous) {
		return failed
	}
	return responded
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
	name    string
	breaker *gobreaker.TwoStepCircuitBreaker[any]
	room    chan struct{} // one token per call in flight, and one per place withheld

	mu        sync.Mutex
	calls     int       // in flight
	withheld  int       // places that the host has not earned yet, or has lost
	heard     time.Time // the latest response, or the first call after a time without calls
	openSince time.Time // zero while the breaker is closed
	opened    time.Time // when it opened last: it lets no call pass for probeEvery
	paused    time.Time // until then; zero when it is not
	used      time.Time
	latest    string // the outcome of the latest call, when it came, and whether the call failed
	latestAt  time.Time
	failing   bool
}

// hosts are those of a channel.
type hosts struct {
	cfg Config
	mu  sync.Mutex
	all map[string]*host
}

func newHosts(cfg Config) *hosts { return &hosts{cfg: cfg, all: map[string]*host{}} }

// of gives the host with a name.
func (all *hosts) of(name string) *host {
	all.mu.Lock()
	defer all.mu.Unlock()
	h, ok := all.all[name]
	if !ok {
		if len(all.all) >= maxHosts {
			all.forget()
		}
		h = all.newHost(name)
		all.all[name] = h
	}
	h.used = time.Now()
	return h
}

// forget drops the half of the healthy, idle hosts that was not used for longest.
func (all *hosts) forget() {
	var quiet []*host
	for _, h := range all.all {
		if h.inFlight() == 0 && h.breaker.State() == gobreaker.StateClosed {
			quiet = append(quiet, h)
		}
	}
	slices.SortFunc(quiet, func(a, b *host) int { return a.used.Compare(b.used) })
	for _, h := range quiet[:(len(quiet)+1)/2] {
		delete(all.all, h.name)
	}
}

func (all *hosts) newHost(name string) *host {
	h := &host{name: name, room: make(chan struct{}, all.cfg.InFlight)}
	for range h.mostWithheld() {
		h.withheld++
		h.room <- struct{}{}
	}
	h.breaker = gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		Name: name, MaxRequests: 1, Interval: tripWindow, BucketPeriod: tripWindow / 10, Timeout: probeEvery,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.ConsecutiveFailures >= tripAfter || c.Requests >= tripOf && 2*c.TotalFailures > c.Requests
		},
		OnStateChange: func(_ string, from, to gobreaker.State) {
			h.changed(to)
			all.cfg.Log.Warn("a provider's circuit breaker has changed", "channel", all.cfg.Channel, "host", name,
				"from", from, "to", to)
		},
	})
	return h
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

// enter takes a place for a call. It waits a little for one while the host responds. When there is none, it returns how
// long to stay away.
func (h *host) enter(ctx context.Context) (wait time.Duration, ok bool) {
	select {
	case h.room <- struct{}{}:
		h.entered()
		return 0, true
	default:
	}
	patience := min(enterWait, silentAfter-h.silence())
	if patience <= 0 {
		return h.silentWait(), false
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case h.room <- struct{}{}:
		h.entered()
		return 0, true
	case <-timer.C:
	case <-ctx.Done():
	}
	return h.silentWait(), false
}

func (h *host) entered() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls == 0 {
		h.heard = time.Now()
	}
	h.calls++
}

// leave returns a call's place. A response also opens one of the withheld places; a failure withholds the call's own.
func (h *host) leave(o outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls--
	if o == responded {
		h.heard = time.Now()
	}
	switch {
	case o == responded && h.withheld > 0:
		h.withheld--
		<-h.room
	case o == failed && h.withheld < h.mostWithheld():
		h.withheld++
		return
	}
	<-h.room
}

// mostWithheld leaves every host at least one place.
func (h *host) mostWithheld() int { return cap(h.room) - max(1, cap(h.room)/firstShare) }

func (h *host) inFlight() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls
}

// silence is how long calls have been in flight without a response to any.
func (h *host) silence() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls == 0 {
		return 0
	}
	return time.Since(h.heard)
}

// silentWait is how long deliveries stay away from a host without room: the longer it has been silent, the longer they
// stay away.
func (h *host) silentWait() time.Duration {
	return min(max(h.silence()/2, busyWait), maxOpenWait)
}

// pausedFor is how long the host stays paused. When the pause is over, the first caller gets 0 and tries whether the
// host is back; the others wait for the outcome.
func (h *host) pausedFor(now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.paused.IsZero() {
		return 0
	}
	if wait := h.paused.Sub(now); wait > 0 {
		return wait
	}
	h.paused = now.Add(10 * probeEvery)
	return 0
}

func (h *host) pause(until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.paused = until
}

// note remembers the outcome of the latest call.
func (h *host) note(outcome string, failing bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.latest, h.latestAt, h.failing = outcome, time.Now(), failing
}

// resume ends a pause, and tells whether there was one.
func (h *host) resume() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := !h.paused.IsZero()
	h.paused = time.Time{}
	return was
}

// states lists the hosts.
func (all *hosts) states() []push.Host {
	all.mu.Lock()
	defer all.mu.Unlock()
	states := make([]push.Host, 0, len(all.all))
	for _, h := range all.all {
		breaker := h.breaker.State() // may change it, which takes h.mu
		states = append(states, h.state(breaker))
	}
	slices.SortFunc(states, func(a, b push.Host) int { return cmp.Compare(a.Host, b.Host) })
	return states
}

// state is what operators see of the host.
func (h *host) state(breaker gobreaker.State) push.Host {
	h.mu.Lock()
	defer h.mu.Unlock()
	state := push.Host{
		Host: h.name, Breaker: breaker.String(), OpenSince: h.openSince, InFlight: h.calls, Outcome: h.latest,
		OutcomeAt: h.latestAt, Failing: h.failing,
	}
	if time.Until(h.paused) > 0 {
		state.PausedUntil = h.paused.UTC()
	}
	if breaker == gobreaker.StateOpen {
		state.NextTry = h.opened.Add(probeEvery).UTC()
	}
	return state
}
