package queue

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

// Handler works one tick; see [dispatch.Dispatcher.Handle].
type Handler func(ctx context.Context, t dispatch.Tick) error

// ServerConfig of a Server.
type ServerConfig struct {
	// Lanes is how many there are.
	Lanes int
	// Held is how many ticks may be held or at work at once, over all lanes. Deliveries are bounded apart from it.
	// Defaults to 4,096.
	Held int
	// PullCount names the hash and the field in which what is taken off a lane is counted, in the same step. Defaults to
	// counting nowhere.
	PullCount func(lane int) (key, field string)
	// Spread says that the lanes may be on several servers, as on Redis Cluster.
	Spread bool
	// DrainTimeout is how long Stop waits for handlers. Defaults to 20 s.
	DrainTimeout time.Duration
	Log          *slog.Logger
}

// Server pulls ticks off the lanes, many at a time, hands each to a handler, and acknowledges many at a time. What is not
// of that path is left to a server of asynq's (see [keeper]); to asynq's tools both are one.
type Server struct {
	lanes   []*lane
	keeper  *keeper
	watcher *watcher
	drain   time.Duration

	closing chan struct{}      // closed when nothing more is to be pulled
	abandon context.CancelFunc // ends what handlers and acknowledgements run on
	once    sync.Once

	pulling, handling, acknowledging, keeping sync.WaitGroup
}

// NewServer makes a Server on a connection that stays the caller's.
func NewServer(conn redis.UniversalClient, cfg ServerConfig) *Server {
	cfg.Held = cmp.Or(cfg.Held, 4096)
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	s := &Server{drain: cmp.Or(cfg.DrainTimeout, 20*time.Second), closing: make(chan struct{}), abandon: func() {}}
	for number := range cfg.Lanes {
		l := newLane(conn, number, max(1, cfg.Held/cfg.Lanes), s.closing, cfg.Log)
		if cfg.PullCount != nil {
			l.countKey, l.countField = cfg.PullCount(number)
		}
		s.lanes = append(s.lanes, l)
	}
	s.keeper = newKeeper(conn, s.lanes, cfg.Held, s.closing, cfg.Log)
	s.watcher = &watcher{conn: conn, lanes: s.lanes, spread: cfg.Spread, closing: s.closing, log: cfg.Log}
	return s
}

// Start begins to pull. A Server starts once.
func (s *Server) Start(handle Handler) error {
	if err := s.keeper.start(); err != nil {
		return fmt.Errorf("start the queue's server: %w", err)
	}
	ctx, abandon := context.WithCancel(context.Background())
	s.abandon = abandon
	s.pulling.Go(func() { s.watcher.watch(ctx) })
	s.keeping.Go(func() { s.keepLeases(ctx) })
	for _, l := range s.lanes {
		s.acknowledging.Go(func() { l.acknowledge(ctx) })
		s.pulling.Go(func() {
			l.pull(ctx, func(t task) { s.handling.Go(func() { l.work(ctx, t, handle) }) })
		})
	}
	return nil
}

// Stop pulls no more, waits for the handlers as long as the drain may take, and acknowledges what they did. What is at work
// even then goes back to the head of its lane.
func (s *Server) Stop() {
	s.once.Do(func() {
		close(s.closing)
		s.pulling.Wait()
		s.awaitHandlers()
		late := time.AfterFunc(farewell, s.abandon)
		for _, l := range s.lanes {
			close(l.last)
		}
		s.acknowledging.Wait()
		late.Stop()
		s.abandon()
		s.keeping.Wait()
		for _, l := range s.lanes {
			l.giveBack()
		}
		s.keeper.stop()
	})
}

// awaitHandlers waits until all have come back, but no longer than the drain may take.
func (s *Server) awaitHandlers() {
	done := make(chan struct{})
	go func() { defer close(done); s.handling.Wait() }()
	late := time.NewTimer(s.drain)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	}
}

// keepLeases tells Redis that this process lives, for what it has at work.
func (s *Server) keepLeases(ctx context.Context) {
	ticker := time.NewTicker(leaseLife / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			for _, l := range s.lanes {
				l.extendLeases(ctx)
			}
		}
	}
}

// Ping asks whether Redis answers.
func (s *Server) Ping() error { return s.keeper.ping() }
