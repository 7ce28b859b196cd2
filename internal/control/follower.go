package control

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// refreshEvery is how often a process asks what is paused.
	refreshEvery = time.Second
	// refreshTimeout bounds one look: a store that does not answer must not keep a process from looking again.
	refreshTimeout = 5 * time.Second
)

const (
	// shortest and longest are how long what meets a pause stays away before it asks again: the longer the pause has
	// been, the longer.
	shortest = 2 * time.Second
	longest  = 30 * time.Second
)

// Outside is who paused a partition that no operator of pacer did: by asynq's own tools, or by hand.
const Outside = "asynq's tools"

// PartitionState is how the queue of a partition was found.
type PartitionState struct {
	Name string
	// Outside is true when the queue is stopped although nobody told pacer to, Since the moment if it is known.
	Outside bool
	Since   time.Time
}

// Reconcile makes the queue of every partition as it should be: paused where shouldPause says so, else going on unless
// somebody stopped it from outside. It gives the partitions that could be asked, and with an error those are not all.
type Reconcile func(ctx context.Context, shouldPause func(partition string) bool) ([]PartitionState, error)

// Follower keeps in memory what is paused, for the path of every delivery.
type Follower struct {
	store      Store
	partitions Reconcile
	log        *slog.Logger

	looking chan struct{} // holds one while a look is under way: a later one must not be undone by an earlier
	paused  atomic.Pointer[paused]
}

// paused tells since when each subject is paused.
type paused struct{ told, outside map[Subject]time.Time }

// NewFollower makes a follower that knows of no pause yet. It has the queues of the partitions reconciled at each
// look, so that one whose store or process failed in between is put right by the next, of any process.
func NewFollower(store Store, partitions Reconcile, log *slog.Logger) *Follower {
	f := &Follower{store: store, partitions: partitions, log: log, looking: make(chan struct{}, 1)}
	f.paused.Store(&paused{})
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

// Refresh looks once. Its error is the store's; partitions whose queue can't be reached are logged, and reconciled at a
// later look.
func (f *Follower) Refresh(ctx context.Context) error {
	select {
	case f.looking <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-f.looking }()
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	pauses, err := f.store.Pauses(ctx)
	if err != nil {
		return err
	}
	before := f.paused.Load()
	after := &paused{told: make(map[Subject]time.Time, len(pauses)), outside: before.outside}
	for _, p := range pauses {
		after.told[p.Subject] = p.At
		if _, known := before.told[p.Subject]; !known {
			f.log.InfoContext(ctx, "paused", "kind", p.Kind, "name", p.Name, "by", p.By, "why", p.Why)
		}
	}
	f.paused.Store(after)
	for s := range before.told {
		if _, still := after.told[s]; !still {
			f.log.InfoContext(ctx, "resumed", "kind", s.Kind, "name", s.Name)
		}
	}
	f.reconcile(ctx, after)
	return nil
}

// reconcile has the queues be as they should, and remembers which are stopped from outside. Of a partition that can't
// be asked it goes on believing what it knew.
func (f *Follower) reconcile(ctx context.Context, now *paused) {
	states, err := f.partitions(ctx, func(partition string) bool {
		_, told := now.told[Subject{Partition, partition}]
		return told
	})
	if err != nil && ctx.Err() == nil {
		f.log.WarnContext(ctx, "could not look at the queues of all partitions; they are paused or resumed at a later look",
			"error", err)
	}
	outside := maps.Clone(now.outside)
	if outside == nil {
		outside = map[Subject]time.Time{}
	}
	for _, state := range states {
		s := Subject{Partition, state.Name}
		_, known := outside[s]
		switch {
		case state.Outside && !known:
			f.log.InfoContext(ctx, "paused", "kind", s.Kind, "name", s.Name, "by", Outside)
		case !state.Outside && known:
			f.log.InfoContext(ctx, "resumed", "kind", s.Kind, "name", s.Name)
		}
		if delete(outside, s); state.Outside {
			outside[s] = state.Since
		}
	}
	maps.DeleteFunc(outside, func(s Subject, _ time.Time) bool { _, told := now.told[s]; return told })
	f.paused.Store(&paused{told: now.told, outside: outside})
}

// Wait is how long what belongs to a subject stays away before it asks again; 0 when the subject is not paused. The
// waits are spread, so that not all come back at once.
func (f *Follower) Wait(kind Kind, name string) time.Duration {
	paused := f.paused.Load()
	if len(paused.told)+len(paused.outside) == 0 {
		return 0
	}
	since, found := paused.told[Subject{kind, name}]
	if !found {
		since, found = paused.outside[Subject{kind, name}]
	}
	if !found {
		return 0
	}
	wait := min(max(time.Since(since)/2, shortest), longest)
	return wait/2 + rand.N(wait) //nolint:gosec // spread, no secret
}

// Paused lists what is paused, by whomever, in no order.
func (f *Follower) Paused() []Subject {
	paused := f.paused.Load()
	return slices.AppendSeq(slices.Collect(maps.Keys(paused.told)), maps.Keys(paused.outside))
}

// FromOutside lists the partitions that are stopped although nobody told pacer to.
func (f *Follower) FromOutside() []Pause {
	outside := f.paused.Load().outside
	pauses := make([]Pause, 0, len(outside))
	for s, since := range outside {
		pauses = append(pauses, Pause{Subject: s, By: Outside, At: since})
	}
	slices.SortFunc(pauses, func(a, b Pause) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name)) // they are numbers
	})
	return pauses
}
