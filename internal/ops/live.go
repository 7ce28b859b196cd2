package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/internal/timespan"
)

const (
	// watchedEvery is the time from one look to the next while somebody watches, idleEvery while nobody does.
	watchedEvery = time.Second
	idleEvery    = 5 * time.Second
	// historyKept is how many points the charts begin with.
	historyKept = 300
	// lookTimeout bounds one look.
	lookTimeout = 4800 * time.Millisecond
)

// Point is one moment of the charts.
type Point struct {
	At        int64         `json:"at"` // milliseconds since the epoch
	Accepted  float64       `json:"accepted"`
	Delivered float64       `json:"delivered"`
	Deferrals float64       `json:"deferrals"`
	Failed    float64       `json:"failed"`
	Waiting   stats.Waiting `json:"waiting"`
	P99       float64       `json:"p99"`
}

// Live looks at the deployment again and again. All who watch share each look.
type Live struct {
	read func(context.Context) (*Snapshot, error)
	log  *slog.Logger

	mu      sync.Mutex
	trend   trend
	latest  *Snapshot
	history []Point
	// workedAt is when a worker was last alive, or the first look; missing says that this was logged.
	workedAt time.Time
	missing  bool
	// crowds are those that are logged already.
	crowds map[dispatch.Backlog]bool
	// outdatedAt is when an action was last taken here, or a look failed. Snapshots from before are not current.
	outdatedAt time.Time
	watchers   map[chan []byte]struct{}
	woken      chan struct{} // a watcher came, or an action was taken
	stopped    bool
}

// NewLive makes a Live that looks by calling read. read fills in everything but the rates, the lateness and the pulls
// per delivery, which Live computes from one look to the next.
func NewLive(read func(context.Context) (*Snapshot, error), log *slog.Logger) *Live {
	return &Live{read: read, log: log, watchers: map[chan []byte]struct{}{}, woken: make(chan struct{}, 1)}
}

// Run looks until ctx ends, and then ends the streams of all watchers.
func (l *Live) Run(ctx context.Context) {
	defer l.stop()
	for {
		if err := l.look(ctx); err != nil && ctx.Err() == nil {
			l.log.DebugContext(ctx, "could not read the deployment for the dashboard", "error", err)
		}
		timer := time.NewTimer(l.interval())
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-l.woken:
			timer.Stop()
		case <-timer.C:
		}
	}
}

func (l *Live) interval() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.watchers) > 0 {
		return watchedEvery
	}
	return idleEvery
}

// look reads once and tells those who watch.
func (l *Live) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	s, err := l.read(ctx)
	if err != nil {
		if !errors.Is(ctx.Err(), context.Canceled) { // else nobody waits for it any more
			l.tellAway(ctx, err)
		}
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.latest != nil && s.At.Before(l.latest.At) {
		return nil // a look that began later has overtaken this one
	}
	l.trend.follow(s)
	l.latest = s
	l.noteWorkers(ctx, s)
	l.noteCrowds(ctx, s)
	l.history = append(l.history, Point{
		At: s.At.UnixMilli(), Accepted: s.Rates.Accepted, Delivered: s.Rates.Delivered, Deferrals: s.Rates.Deferrals,
		Failed: s.Rates.Failed, Waiting: s.Waiting, P99: s.Lateness.P99,
	})
	if len(l.history) > historyKept {
		l.history = l.history[1:]
	}
	return l.tell(s)
}

// noteWorkers logs that no worker has been alive for a while, and that one is again.
func (l *Live) noteWorkers(ctx context.Context, s *Snapshot) {
	switch without := s.At.Sub(l.workedAt); {
	case l.workedAt.IsZero(), !workerless(s):
		if l.missing {
			l.log.InfoContext(ctx, "a worker is alive again", "after", timespan.Seconds(without))
		}
		l.workedAt, l.missing = s.At, false
	case !l.missing && without >= stuckAfter:
		l.missing = true
		l.log.WarnContext(ctx, "no worker is alive: nothing is delivered until one is started; new notifications are accepted",
			"since", l.workedAt.UTC().Format(time.TimeOnly), "waiting", s.Queued+s.Deferred)
	}
}

// noteCrowds logs of whom very many have begun to wait.
func (l *Live) noteCrowds(ctx context.Context, s *Snapshot) {
	before := l.crowds
	l.crowds = map[dispatch.Backlog]bool{}
	for _, c := range s.Crowds {
		of := dispatch.Backlog{UserID: c.UserID, Category: c.Category}
		if l.crowds[of] = c.Unbounded; c.Unbounded && !before[of] {
			l.log.WarnContext(ctx, "very many notifications wait for one user, and no overflow ladder bounds them",
				"user_id", c.UserID, "category", c.Category, "waiting", c.Deferred)
		}
	}
}

// tell sends a snapshot to all who watch.
func (l *Live) tell(s *Snapshot) error {
	if len(l.watchers) == 0 {
		return nil
	}
	event, err := eventOf("snapshot", s)
	if err != nil {
		return err
	}
	for watcher := range l.watchers {
		select {
		case watcher <- event:
		default: // the watcher is slow; the next snapshot tells it everything
		}
	}
	return nil
}

// unreadable is what is told when every store responds, and something can't be read all the same.
const unreadable = "the store can't be read now: this process's log says why"

// tellAway notes that the latest figures are not current, and tells those who watch why the deployment can't be read,
// beside the figures that were read last, if any were.
func (l *Live) tellAway(ctx context.Context, err error) {
	words := unreadable
	if away, ok := errors.AsType[*Away](err); ok {
		words = away.words()
	} else {
		l.log.WarnContext(ctx, "could not read the deployment for the dashboard, although every store responds",
			"error", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outdatedAt = time.Now()
	stale, age := Snapshot{At: l.outdatedAt.UTC()}, "There are no figures yet."
	if l.latest != nil {
		stale, age = *l.latest, fmt.Sprintf("The figures are %s old.", timespan.Seconds(time.Since(l.latest.At)))
	}
	stale.Stale = true
	stale.Problems = []Problem{{words + ". " + age, Remedy{Label: "See whether it is ready", Address: "readyz"}}}
	if err := l.tell(&stale); err != nil {
		l.log.DebugContext(ctx, "could not tell the dashboard that a store is away", "error", err)
	}
}

// peek is the latest snapshot, however old, without a look; nil before the first.
func (l *Live) peek() *Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.latest
}

// changed notes that the latest snapshot no longer shows the deployment as it is.
func (l *Live) changed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outdatedAt = time.Now()
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

// Latest returns the latest snapshot. It reads a new one when nobody watches, and when an action was
// taken or a look failed since.
func (l *Live) Latest(ctx context.Context) (*Snapshot, error) {
	l.mu.Lock()
	latest, fresh := l.latest, l.latest != nil && time.Since(l.latest.At) < watchedEvery &&
		l.latest.At.After(l.outdatedAt)
	l.mu.Unlock()
	if fresh {
		return latest, nil
	}
	if err := l.look(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.latest, nil
}

// watch returns a channel of events that begins with the history. It ends when done is called; Live closes the channel
// when it stops.
func (l *Live) watch() (events <-chan []byte, done func(), err error) {
	watcher := make(chan []byte, 2)
	l.mu.Lock()
	defer l.mu.Unlock()
	first, err := eventOf("history", l.history)
	if err != nil {
		return nil, nil, err
	}
	watcher <- first
	if l.stopped {
		close(watcher)
		return watcher, func() {}, nil
	}
	l.watchers[watcher] = struct{}{}
	select {
	case l.woken <- struct{}{}:
	default:
	}
	return watcher, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watchers, watcher)
	}, nil
}

func (l *Live) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	for watcher := range l.watchers {
		close(watcher)
		delete(l.watchers, watcher)
	}
}

// eventOf encodes a server-sent event.
func eventOf(kind string, body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode a %s for the dashboard: %w", kind, err)
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", kind, text), nil
}
