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
	// probeEvery is how often a host whose breaker is open is tried, by all processes together.
	probeEvery = time.Second
	// tripAfter failures in a row open the breaker, or half of at least tripOf calls within tripWindow. The window is
	// longer than a call may take: the breaker counts a result with the moment when its call began.
	tripAfter  = 10
	tripOf     = 40
	tripWindow = 30 * time.Second
	// maxOpenWait is how long deliveries wait at most before they ask again whether the host is back.
	maxOpenWait = 30 * time.Second
	// maxHosts is how many hosts are remembered: targets come from input.
	maxHosts = 10_000
	// enterWait is how long a call waits for room on a host that answers, so that a healthy crowd keeps its order.
	enterWait = 2 * time.Second
	// silentAfter without an answer to any call under way nobody waits for a host any more: waiting takes the
	// dispatcher's room from the others.
	silentAfter = 250 * time.Millisecond
	// firstShare of the room is what a host gets before it has answered: each answer opens a place more, each failure
	// closes one, as TCP's slow start does it.
	firstShare = 8
)

// outcome is what a call says of its host.
type outcome int

const (
	notCalled outcome = iota
	// answered whatever it was: what a provider refuses, it has answered.
	answered
	failed
)

func outcomeOf(failure *push.Error) outcome {
	if failure != nil && (failure.Class == push.Transient || failure.Class == push.Ambiguous) {
		return failed
	}
	return answered
}

// err is the outcome as the breaker wants it.
func (o outcome) err() error {
	if o == failed {
		return errFailed
	}
	return nil
}

var errFailed = errors.New("the call failed")

// host is one that calls go to.
type host struct {
	name    string
	breaker *gobreaker.TwoStepCircuitBreaker[any]
	room    chan struct{} // one token per call in flight, and one per place withheld

	mu        sync.Mutex
	calls     int       // in flight
	withheld  int       // places that the host has not earned yet, or has lost
	heard     time.Time // the latest answer, or the first call after a time without any
	openSince time.Time // zero while the breaker is closed
	paused    time.Time // until then; zero when it is not
	used      time.Time
	answer    string // the latest, and when it came
	answered  time.Time
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

// forget drops the older half of the hosts that nothing is wrong with.
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
			all.cfg.Log.Warn("the circuit breaker of a provider changes", "channel", all.cfg.Channel, "host", name,
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
	}
}

// openWait is how long deliveries wait while the host is away: the longer it has been, the longer.
func (h *host) openWait() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.openSince.IsZero() {
		return probeEvery
	}
	return min(max(time.Since(h.openSince)/2, probeEvery), maxOpenWait)
}

// enter takes a place for a call, for which it waits a little while the host answers. Without one it gives how long to
// stay away.
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

// leave gives a call's place back. An answer opens one of those withheld as well; a failure withholds its own.
func (h *host) leave(o outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls--
	if o == answered {
		h.heard = time.Now()
	}
	switch {
	case o == answered && h.withheld > 0:
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

// silence is how long calls have been under way without an answer to any.
func (h *host) silence() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls == 0 {
		return 0
	}
	return time.Since(h.heard)
}

// silentWait is how long deliveries stay away from a host without room: the longer it has been silent, the longer.
func (h *host) silentWait() time.Duration {
	return min(max(h.silence()/2, busyWait), maxOpenWait)
}

// pausedFor is how long the host still rests. When that is over, the one who asks first tries whether it is back, and
// the others wait for what comes of it.
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

// note remembers the latest answer.
func (h *host) note(answer string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer, h.answered = answer, time.Now()
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
func (all *hosts) states() []State {
	all.mu.Lock()
	defer all.mu.Unlock()
	states := make([]State, 0, len(all.all))
	for _, h := range all.all {
		breaker := h.breaker.State() // may change it, which takes h.mu
		h.mu.Lock()
		states = append(states, State{
			Host: h.name, Breaker: breaker.String(), InFlight: h.calls, PausedFor: max(0, time.Until(h.paused)),
			Answer: h.answer, AnsweredAt: h.answered,
		})
		h.mu.Unlock()
	}
	slices.SortFunc(states, func(a, b State) int { return cmp.Compare(a.Host, b.Host) })
	return states
}
