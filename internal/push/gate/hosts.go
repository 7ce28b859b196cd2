package gate

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/pacer-notify/pacer/internal/push"
)

const (
	// maxHosts is how many hosts are remembered, and hostIdle how long one that nobody calls. There have to be bounds,
	// since targets come from input.
	maxHosts = 10_000
	hostIdle = time.Hour
	// sweepEvery is how often hosts are looked for that nobody calls any more.
	sweepEvery = time.Minute
	// maxTold is how many hosts operators see.
	maxTold = 100
	// strangerShare divides the room of a host: so many calls may be under way to all hosts together that are not known
	// to respond.
	strangerShare = 4
)

// hosts are those of a channel.
type hosts struct {
	cfg       Config
	strangers *room

	mu    sync.Mutex
	all   map[string]*host
	swept time.Time
}

func newHosts(cfg Config) *hosts {
	places := min(max(cfg.InFlight/strangerShare, 2*firstPlaces), cfg.InFlight) // more than one host begins with
	return &hosts{cfg: cfg, strangers: newRoom(places, places), all: map[string]*host{}}
}

// of returns the host with a name.
func (all *hosts) of(name string) *host {
	now := time.Now()
	all.mu.Lock()
	defer all.mu.Unlock()
	all.sweep(now)
	h, ok := all.all[name]
	if !ok {
		if len(all.all) >= maxHosts {
			all.forget()
		}
		h = all.newHost(name)
		all.all[name] = h
	}
	h.used = now
	return h
}

// sweep drops the hosts that nobody has called for long, whatever they were like: what is known of them is old. The
// lock is held.
func (all *hosts) sweep(now time.Time) {
	if now.Sub(all.swept) < sweepEvery {
		return
	}
	all.swept = now
	for name, h := range all.all {
		if now.Sub(h.used) >= hostIdle && h.room.inFlight() == 0 {
			delete(all.all, name)
		}
	}
}

// forget drops the half of the hosts without calls that was not used for longest. The lock is held.
func (all *hosts) forget() {
	var quiet []*host
	for _, h := range all.all {
		if h.room.inFlight() == 0 {
			quiet = append(quiet, h)
		}
	}
	slices.SortFunc(quiet, func(a, b *host) int { return a.used.Compare(b.used) })
	for _, h := range quiet[:(len(quiet)+1)/2] {
		delete(all.all, h.name)
	}
}

func (all *hosts) newHost(name string) *host {
	h := &host{
		name: name, strangers: all.strangers,
		room: newRoom(min(max(all.cfg.InFlight/firstShare, firstPlaces), all.cfg.InFlight), all.cfg.InFlight),
	}
	h.breaker = gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		Name: name, MaxRequests: 1, Interval: tripWindow, BucketPeriod: tripWindow / 10, Timeout: probeEvery,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.ConsecutiveFailures >= tripAfter || h.failedInARow() >= tripAfter ||
				c.Requests >= tripOf && 2*c.TotalFailures > c.Requests
		},
		OnStateChange: func(_ string, from, to gobreaker.State) {
			h.changed(to)
			all.cfg.Log.Warn("a provider's circuit breaker has changed", "channel", all.cfg.Channel, "host", name,
				"from", from.String(), "to", to.String())
		},
	})
	return h
}

// list returns the hosts that are remembered.
func (all *hosts) list() []*host {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.sweep(time.Now())
	list := make([]*host, 0, len(all.all))
	for _, h := range all.all {
		list = append(list, h)
	}
	// h.used is the lock's.
	slices.SortFunc(list, func(a, b *host) int { return b.used.Compare(a.used) })
	return list
}

// states lists hosts by name: those in trouble, then those that were called last, and no more than anybody reads.
func (all *hosts) states() []push.Host {
	var troubled, well []push.Host
	for _, h := range all.list() {
		state := h.state(h.breaker.State()) // State may change it, which takes h.mu
		if state.Breaker == push.BreakerClosed && state.PausedUntil.IsZero() {
			well = append(well, state)
		} else {
			troubled = append(troubled, state)
		}
	}
	states := append(troubled, well...)
	states = states[:min(len(states), maxTold)]
	slices.SortFunc(states, func(a, b push.Host) int { return cmp.Compare(a.Host, b.Host) })
	return states
}

// open counts the hosts whose breaker is not closed.
func (all *hosts) open() int {
	open := 0
	for _, h := range all.list() {
		if h.breaker.State() != gobreaker.StateClosed {
			open++
		}
	}
	return open
}
