package queue

import (
	"context"
	_ "embed"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Scripts that do for many tasks of a lane what asynq does for one.
var (
	//go:embed fetch.lua
	fetchSource string
	//go:embed finish.lua
	finishSource string
	//go:embed giveback.lua
	givebackSource string

	fetchScript    = redis.NewScript(fetchSource)
	finishScript   = redis.NewScript(finishSource)
	givebackScript = redis.NewScript(givebackSource)
)

// puller is the connection that asynq's servers see. asynq asks Redis for one task at a time, again and again while there
// is none, and acknowledges each by itself; the puller answers what it asks out of what it took many at a time, lets it
// wait while there is nothing, and acknowledges many at once. To Redis, and to asynq's tools, it is all the same.
//
// It also mends a fault of asynq 0.25 and 0.26 from outside: see [acknowledger].
type puller struct {
	acknowledger
	lanes map[string]*pulledLane // by the key of what is pending
	// spread says that the lanes may be on several servers, so that no command may be of two.
	spread bool

	closing chan struct{}
	once    sync.Once
	running sync.WaitGroup
}

const (
	// watchEvery is how often lanes in which nothing waited are looked at again.
	watchEvery = 20 * time.Millisecond
	// fetchAtOnce is how many tasks are taken at once at most.
	fetchAtOnce = 32
	// leaseLife is how long a taken task is this process's, as asynq has it.
	leaseLife = 30 * time.Second
)

// newPuller makes a puller for the lanes with these names, of which room tasks each may be at work.
func newPuller(conn redis.UniversalClient, names []string, room int, spread bool) *puller {
	p := &puller{acknowledger: acknowledger{conn}, spread: spread, lanes: map[string]*pulledLane{}, closing: make(chan struct{})}
	for _, name := range names {
		lane := newPulledLane(p.acknowledger, name, room)
		p.lanes[lane.pending] = lane
	}
	return p
}

// start looks after lanes in which nothing waits, until stop.
func (p *puller) start() { p.running.Go(p.watch) }

// stop lets nobody wait any more. What was taken and not begun goes back.
func (p *puller) stop() {
	p.once.Do(func() {
		close(p.closing)
		p.running.Wait()
		for _, lane := range p.lanes {
			lane.close()
		}
	})
}

// EvalSha implements [redis.UniversalClient]. asynq runs every script by this first.
func (p *puller) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	switch {
	case len(keys) == 4 && strings.HasSuffix(keys[0], ":pending") && strings.HasSuffix(keys[1], ":paused"):
		if lane, ok := p.lanes[keys[0]]; ok {
			return lane.dequeue(ctx)
		}
	case len(keys) == 5 && strings.HasSuffix(keys[0], ":active") && strings.HasSuffix(keys[4], ":processed"):
		if lane, ok := p.lanes[strings.TrimSuffix(keys[0], "active")+"pending"]; ok {
			return lane.done(ctx, keys, args)
		}
	case len(keys) > 1 && strings.HasSuffix(keys[1], ":active"): // it comes again, or is archived
		if lane, ok := p.lanes[strings.TrimSuffix(keys[1], "active")+"pending"]; ok {
			lane.left(1)
		}
	}
	return p.acknowledger.EvalSha(ctx, sha, keys, args...)
}

// watch wakes lanes in which something waits again.
func (p *puller) watch() {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-p.closing:
			return
		case <-ticker.C:
			p.look()
		}
	}
}

// look asks once for all lanes that somebody waits for.
func (p *puller) look() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var wanted []*pulledLane
	var keys []string
	for _, lane := range p.lanes {
		if lane.wanted() {
			wanted, keys = append(wanted, lane), append(keys, lane.pending)
		}
	}
	if len(wanted) == 0 {
		return
	}
	if !p.spread {
		if n, err := p.UniversalClient.Exists(ctx, keys...).Result(); err == nil && n == 0 {
			return // as nearly always when there is little to do
		}
	}
	pipe := p.UniversalClient.Pipeline()
	asked := map[*pulledLane]*redis.IntCmd{}
	for _, lane := range wanted {
		asked[lane] = pipe.Exists(ctx, lane.pending)
	}
	_, err := pipe.Exec(ctx)
	for lane, exists := range asked {
		if err != nil || exists.Val() > 0 { // an error is asynq's to tell of
			lane.wake()
		}
	}
}
