package queue

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/script"
)

// Scripts that do for many tasks of a lane what asynq does for one.
var (
	//go:embed fetch.lua
	fetchSource string
	//go:embed giveback.lua
	givebackSource string

	fetchScript    = script.New(fetchSource)
	givebackScript = script.NewWhenFull(givebackSource)
)

const (
	// fetchAtOnce is how many tasks are taken at once at most.
	fetchAtOnce = 32
	// leaseLife is how long a taken task is this process's, as asynq has it.
	leaseLife = 30 * time.Second
	// pullAgain is how long a lane waits after Redis could not be asked.
	pullAgain = 250 * time.Millisecond
	// farewell is how long a process that stops tries to tell Redis what it did.
	farewell = 2 * time.Second
)

// task is a task of the queue: a tick, if it is ours.
type task struct{ id, message string }

// lane is one lane as this process works it. Its tasks are pulled by one goroutine, each handled by one of its own, and
// acknowledged by one.
type lane struct {
	conn                  redis.UniversalClient
	number                int
	name, prefix, pending string
	keys                  []string // what scripts name as their keys
	room                  int
	countKey, countField  string // where what is taken is counted
	log                   *slog.Logger

	closing <-chan struct{}
	last    chan struct{} // closed when no handler comes back any more

	mu     sync.Mutex
	atWork map[string]struct{} // ids
	freed  chan struct{}       // tells that there is room

	idle  atomic.Bool // nothing was there, and somebody waits
	woken chan struct{}

	endings chan ending
}

func newLane(conn redis.UniversalClient, number, room int, closing <-chan struct{}, log *slog.Logger) *lane {
	name := dispatch.LaneName(number)
	prefix := "asynq:{" + name + "}:"
	return &lane{
		conn: conn, number: number, name: name, prefix: prefix, pending: prefix + "pending", keys: dispatch.LaneKeys(prefix),
		room: room, log: log,
		closing: closing, last: make(chan struct{}),
		atWork: map[string]struct{}{}, freed: make(chan struct{}, 1), woken: make(chan struct{}, 1),
		endings: make(chan ending, room),
	}
}

// pull takes tasks and has each begun, as many as there is room for, until closing.
func (l *lane) pull(ctx context.Context, begin func(task)) {
	for {
		n := l.awaitRoom()
		if n == 0 {
			return
		}
		tasks, err := l.fetch(ctx, n)
		if err != nil {
			l.log.WarnContext(ctx, "take ticks off a lane; it is tried again", "lane", l.number, "error", err)
			if !l.pause(pullAgain) {
				return
			}
			continue
		}
		for _, t := range tasks {
			begin(t)
		}
		if len(tasks) < n && !l.awaitWork() {
			return
		}
	}
}

// awaitRoom waits until it is worth while to ask, and gives for how many; 0 when the lane closes.
func (l *lane) awaitRoom() int {
	enough := min(fetchAtOnce, max(1, l.room/8))
	for {
		select {
		case <-l.closing:
			return 0
		default:
		}
		l.mu.Lock()
		free := l.room - len(l.atWork)
		l.mu.Unlock()
		if free >= enough {
			return min(free, fetchAtOnce)
		}
		select {
		case <-l.freed:
		case <-l.closing:
			return 0
		}
	}
}

// awaitWork waits until something is there; false when the lane closes.
func (l *lane) awaitWork() bool {
	l.idle.Store(true)
	defer l.idle.Store(false)
	select {
	case <-l.woken:
		return true
	case <-l.closing:
		return false
	}
}

// wake ends awaitWork.
func (l *lane) wake() { signal(l.woken) }

// signal tells one who waits, now or next.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pause waits; false when the lane closes.
func (l *lane) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.closing:
		return false
	}
}

// fetch takes up to n tasks, each with a lease.
func (l *lane) fetch(ctx context.Context, n int) ([]task, error) {
	reply, err := fetchScript.Run(ctx, l.conn, l.keys, time.Now().Add(leaseLife).Unix(), n, l.countKey, l.countField).StringSlice()
	if err != nil {
		return nil, err
	}
	if len(reply)%2 != 0 {
		return nil, fmt.Errorf("the fetch script answered %d fields, not pairs", len(reply))
	}
	tasks := make([]task, 0, len(reply)/2)
	l.mu.Lock()
	defer l.mu.Unlock()
	for pair := range slices.Chunk(reply, 2) {
		tasks = append(tasks, task{pair[0], pair[1]})
		l.atWork[pair[0]] = struct{}{}
	}
	return tasks, nil
}

// work has a task handled, and tells how it ended.
func (l *lane) work(ctx context.Context, t task, handle Handler) {
	tick, err := decodeTask(t, l.number)
	if err != nil {
		l.putAside(ctx, t, err)
		return
	}
	l.endings <- endingOf(t.id, l.run(ctx, tick, handle), time.Now())
}

// run survives the handler's panic: it is an error.
func (l *lane) run(ctx context.Context, tick dispatch.Tick, handle Handler) (err error) {
	defer func() {
		if p := recover(); p != nil {
			l.log.ErrorContext(ctx, "a tick's handler panicked; the tick comes again", "lane", l.number, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("handler panicked: %v", p)
		}
	}()
	return handle(ctx, tick)
}

// left makes room: these tasks are not at work here any more.
func (l *lane) left(ids ...string) {
	l.mu.Lock()
	for _, id := range ids {
		delete(l.atWork, id)
	}
	l.mu.Unlock()
	signal(l.freed)
}

// working lists what is at work.
func (l *lane) working() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.atWork))
}

// extendLeases keeps what is at work this process's.
func (l *lane) extendLeases(ctx context.Context) {
	ids := l.working()
	if len(ids) == 0 {
		return
	}
	until := float64(time.Now().Add(leaseLife).Unix())
	leases := make([]redis.Z, len(ids))
	for i, id := range ids {
		leases[i] = redis.Z{Member: id, Score: until}
	}
	if err := l.conn.ZAddXX(ctx, l.prefix+"lease", leases...).Err(); err != nil {
		l.log.WarnContext(ctx, "extend the leases of a lane; it is tried again", "lane", l.number, "error", err)
	}
}

// giveBack puts what is still at work back into the queue.
func (l *lane) giveBack() {
	ids := l.working()
	if len(ids) == 0 {
		return
	}
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	if err := givebackScript.Run(ctx, l.conn, l.keys, args...).Err(); err != nil {
		l.log.WarnContext(ctx, "give ticks back; they come again when their leases have ended", "lane", l.number, "ticks", len(ids), "error", err)
	}
}
