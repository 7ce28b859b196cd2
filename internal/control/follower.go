package control

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

// refreshEvery is how often a process asks what is paused.
const refreshEvery = time.Second

const (
	// shortest and longest are how long what meets a pause stays away before it asks again: the longer the pause has been,
	// the longer.
	shortest = 2 * time.Second
	longest  = 30 * time.Second
)

// Follower keeps in memory what is paused, for the path of every delivery.
type Follower struct {
	store Store
	// lane stops the queue of a lane, at each look, or lets it go on, once.
	lane func(ctx context.Context, name string, resting bool) error
	log  *slog.Logger

	paused atomic.Pointer[map[Subject]time.Time] // since when
}

// NewFollower makes a follower that knows of no pause yet; lane stops the queue of a lane at each look that finds it
// paused, and lets it go on at the first that does not.
func NewFollower(store Store, lane func(ctx context.Context, name string, resting bool) error, log *slog.Logger) *Follower {
	f := &Follower{store: store, lane: lane, log: log}
	f.paused.Store(&map[Subject]time.Time{})
	return f
}

// Run looks every second until ctx ends. While the store can't be read what was known goes on to hold.
func (f *Follower) Run(ctx context.Context) {
	ticker := time.NewTicker(refreshEvery)
	defer ticker.Stop()
	for {
		if err := f.Refresh(ctx); err != nil && ctx.Err() == nil {
			f.log.DebugContext(ctx, "look for what is paused", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Refresh looks once.
func (f *Follower) Refresh(ctx context.Context) error {
	pauses, err := f.store.Pauses(ctx)
	if err != nil {
		return err
	}
	before, after := *f.paused.Load(), make(map[Subject]time.Time, len(pauses))
	for _, p := range pauses {
		after[p.Subject] = p.At
		if _, known := before[p.Subject]; !known {
			f.log.InfoContext(ctx, "paused", "kind", p.Kind, "name", p.Name, "by", p.By, "why", p.Why)
		}
	}
	f.paused.Store(&after)
	var faults []error
	for s := range after {
		if s.Kind == Lane {
			faults = append(faults, f.lane(ctx, s.Name, true))
		}
	}
	for s := range before {
		if _, still := after[s]; still {
			continue
		}
		f.log.InfoContext(ctx, "resumed", "kind", s.Kind, "name", s.Name)
		if s.Kind == Lane {
			faults = append(faults, f.lane(ctx, s.Name, false))
		}
	}
	return errors.Join(faults...)
}

// Wait is how long what belongs to a subject stays away before it asks again; 0 when the subject does not rest. The waits
// are spread, so that not all come back at once.
func (f *Follower) Wait(kind Kind, name string) time.Duration {
	paused := *f.paused.Load()
	if len(paused) == 0 {
		return 0
	}
	since, resting := paused[Subject{kind, name}]
	if !resting {
		return 0
	}
	wait := min(max(time.Since(since)/2, shortest), longest)
	return wait/2 + rand.N(wait) //nolint:gosec // spread, no secret
}

// Paused lists what is paused, in no order.
func (f *Follower) Paused() []Subject { return slices.Collect(maps.Keys(*f.paused.Load())) }
