package control

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pacer-notify/pacer/internal/beat"
	"github.com/pacer-notify/pacer/internal/queue"
)

const (
	// refreshEvery is how often a process asks what is paused.
	refreshEvery = time.Second
	// refreshTimeout bounds one look: a store that does not respond must not keep a process from looking again.
	refreshTimeout = 5 * time.Second
)

const (
	// shortest and longest bound how long a notification that meets a pause waits before its next try. The longer the
	// pause has lasted, the longer it waits.
	shortest = 2 * time.Second
	longest  = 30 * time.Second
)

// Outside stands for whoever paused a partition past pacer: with asynq's own tools, or by hand.
const Outside = "asynq's tools"

// Queues are the queues of the partitions; [queue.Client] has them.
type Queues interface {
	// Reconcile pauses the queues of the partitions that shouldPause names, and resumes the others, except those that
	// somebody paused from outside. It returns the partitions that it reached, and the errors of the others.
	Reconcile(ctx context.Context, partitions int, shouldPause func(partition int) bool) ([]queue.State, error)
}

// Follower keeps in memory what is paused, for the path of every delivery.
type Follower struct {
	store      Store
	queues     Queues
	partitions int
	log        *slog.Logger

	// Events is told at each look which events somebody wants. Defaults to nothing.
	Events func(types []string) error

	looking chan struct{} // holds one while a look is under way: a later one must not be undone by an earlier
	paused  atomic.Pointer[paused]
	resumed sync.Map // Subject → time.Time: when a pause of it ended, as this process saw it
}

// paused tells since when each subject is paused: told are the pauses in the store, outside those past pacer.
type paused struct{ told, outside map[Subject]time.Time }

// NewFollower makes a follower that knows of no pause yet. At each look it reconciles the queues of all partitions, so
// that what a store or process that failed left undone is done by the next look of any process.
func NewFollower(store Store, queues Queues, partitions int, log *slog.Logger) *Follower {
	f := &Follower{
		store: store, queues: queues, partitions: partitions, log: log, looking: make(chan struct{}, 1),
		Events: func([]string) error { return nil },
	}
	f.paused.Store(&paused{})
	return f
}

// Run looks every second until ctx ends. While the store can't be read, the pauses that were known stay in force.
func (f *Follower) Run(ctx context.Context) {
	ticker := beat.NewTicker(refreshEvery)
	defer ticker.Stop()
	for {
		if err := f.Refresh(ctx); err != nil && ctx.Err() == nil {
			f.log.DebugContext(ctx, "could not check what is paused; retrying", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			ticker.Next()
		}
	}
}

// Refresh looks once. Its error is the store's. Partitions whose queues can't be reached are logged, and reconciled at
// a later look.
func (f *Follower) Refresh(ctx context.Context) error {
	select {
	case f.looking <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-f.looking }()
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	pauses, events, err := f.store.Told(ctx)
	if err == nil {
		err = f.Events(events.At(time.Now()))
	}
	if err != nil {
		return err
	}
	before := f.paused.Load()
	after := &paused{told: make(map[Subject]time.Time, len(pauses)), outside: before.outside}
	for _, p := range pauses {
		after.told[p.Subject] = p.At
		if _, known := before.told[p.Subject]; !known {
			f.log.InfoContext(ctx, "deliveries are paused", "kind", p.Kind, "name", p.Name, "by", p.By, "why", p.Why)
		}
	}
	f.paused.Store(after)
	for s := range before.told {
		if _, still := after.told[s]; !still {
			f.tellResumed(ctx, s)
		}
	}
	f.reconcile(ctx, after)
	return nil
}

// reconcile pauses and resumes the queues, and remembers which of them are paused from outside. For a partition that it
// can't reach it keeps what it knew.
func (f *Follower) reconcile(ctx context.Context, now *paused) {
	states, err := f.queues.Reconcile(ctx, f.partitions, func(partition int) bool {
		_, told := now.told[Subject{Partition, strconv.Itoa(partition)}]
		return told
	})
	if err != nil && ctx.Err() == nil {
		f.log.WarnContext(ctx, "could not reach the queues of some partitions; pauses there take effect at the next check",
			"error", err)
	}
	outside := maps.Clone(now.outside)
	if outside == nil {
		outside = map[Subject]time.Time{}
	}
	for _, state := range states {
		s := Subject{Partition, strconv.Itoa(state.Partition)}
		_, known := outside[s]
		switch {
		case state.Outside && !known:
			f.log.InfoContext(ctx, "deliveries are paused", "kind", s.Kind, "name", s.Name, "by", Outside)
		case !state.Outside && known:
			f.tellResumed(ctx, s)
		}
		if delete(outside, s); state.Outside {
			outside[s] = state.Since.UTC()
		}
	}
	maps.DeleteFunc(outside, func(s Subject, _ time.Time) bool { _, told := now.told[s]; return told })
	f.paused.Store(&paused{told: now.told, outside: outside})
}

func (f *Follower) tellResumed(ctx context.Context, s Subject) {
	f.resumed.Store(s, time.Now())
	f.log.InfoContext(ctx, "deliveries are resumed", "kind", s.Kind, "name", s.Name)
}

// Resumed is when a pause of a subject ended, as far as this process saw one end; else zero.
func (f *Follower) Resumed(kind Kind, name string) time.Time {
	at, _ := f.resumed.Load(Subject{kind, name})
	resumed, _ := at.(time.Time)
	return resumed
}

// Wait is how long a notification of a subject waits before its next try; 0 when the subject is not paused. The waits
// are spread, so that not all tries come at once.
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

// FromOutside lists the partitions that were paused past pacer.
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
