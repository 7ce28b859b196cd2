package gate

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
)

const (
	// probeEvery is how often a host whose breaker is open is tried, by all processes together.
	probeEvery = time.Second
	// tripAfter failures in a row open the breaker, or half of at least tripOf calls within tripWindow.
	tripAfter  = 10
	tripOf     = 40
	tripWindow = 10 * time.Second
	// maxOpenWait is how long deliveries wait at most before they ask again whether the host is back.
	maxOpenWait = 30 * time.Second
	// maxHosts is how many hosts are remembered: targets come from input.
	maxHosts = 10_000
	// enterWait is how long a call waits for room on a host that works, so that a healthy crowd keeps its order; on one that
	// has just failed nobody waits.
	enterWait = 2 * time.Second
)

// host is one that calls go to.
type host struct {
	name    string
	breaker *gobreaker.TwoStepCircuitBreaker[any]
	room    chan struct{} // one token per call in flight

	mu        sync.Mutex
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
		if len(h.room) == 0 && h.breaker.State() == gobreaker.StateClosed {
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
	h.breaker = gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		Name: name, MaxRequests: 1, Interval: tripWindow, BucketPeriod: tripWindow / 10, Timeout: probeEvery,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.ConsecutiveFailures >= tripAfter || c.Requests >= tripOf && 2*c.TotalFailures > c.Requests
		},
		IsSuccessful: func(err error) bool { return !failed(err) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			h.changed(to)
			all.cfg.Log.Warn("the circuit breaker of a provider changes", "channel", all.cfg.Channel, "host", name, "from", from, "to", to)
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

// enter waits a little for room; false when there is none.
func (h *host) enter(ctx context.Context) bool {
	select {
	case h.room <- struct{}{}:
		return true
	default:
	}
	if h.breaker.Counts().ConsecutiveFailures > 0 {
		return false
	}
	timer := time.NewTimer(enterWait)
	defer timer.Stop()
	select {
	case h.room <- struct{}{}:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

func (h *host) leave() { <-h.room }

// pausedFor is how long the host still rests. When that is over, the one who asks first tries whether it is back, and the
// others wait for what comes of it.
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
			Host: h.name, Breaker: breaker.String(), InFlight: len(h.room), PausedFor: max(0, time.Until(h.paused)),
			Answer: h.answer, AnsweredAt: h.answered,
		})
		h.mu.Unlock()
	}
	slices.SortFunc(states, func(a, b State) int { return cmp.Compare(a.Host, b.Host) })
	return states
}
