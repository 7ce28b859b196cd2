package queue

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

// announceEvery is how often the queues are announced to asynq, in case Redis has lost their names.
const announceEvery = time.Minute

// ServerConfig is what a Server needs to know.
type ServerConfig struct {
	// Partitions is how many partitions there are.
	Partitions int
	// Concurrency is how many deliveries the process makes at once, for asynq's tools to show. Defaults to 256.
	Concurrency int
	// Spread says that the partitions may be on several servers, as on Redis Cluster.
	Spread bool
	Log    *slog.Logger
}

// Server is a [dispatch.Queue]: it signals pending wake-ups. An [asynqServer] beside it does what asynq does for any
// queue; asynq's tools show both as one.
type Server struct {
	client   *Client
	asynq    *asynqServer
	watchers []*watcher // one per server that the partitions may be on
	of       []*watcher // by partition
	log      *slog.Logger

	closing chan struct{}
	once    sync.Once
	working sync.WaitGroup
}

// NewServer makes a Server. The connection stays the caller's to close.
func NewServer(conn redis.UniversalClient, cfg ServerConfig) *Server {
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	s := &Server{
		client: NewClient(conn), of: make([]*watcher, cfg.Partitions), log: cfg.Log, closing: make(chan struct{}),
	}
	s.asynq = newAsynqServer(conn, cfg.Partitions, cmp.Or(cfg.Concurrency, 256), s.closing, cfg.Log)
	all := make([]int, cfg.Partitions)
	for number := range all {
		all[number] = number
	}
	together := len(all)
	if cfg.Spread {
		together = 1
	}
	for some := range slices.Chunk(all, together) {
		w := newWatcher(s.client, some, newDoorbell(conn, cfg.Spread), s.closing, cfg.Log)
		s.watchers = append(s.watchers, w)
		for _, number := range some {
			s.of[number] = w
		}
	}
	return s
}

// Start begins to watch the queues. A Server starts once.
func (s *Server) Start() error {
	if err := s.asynq.start(); err != nil {
		return fmt.Errorf("start the queue's server: %w", err)
	}
	ctx := context.Background()
	for _, w := range s.watchers {
		s.working.Go(func() { w.watch(ctx) })
	}
	s.working.Go(func() { s.announce(ctx) })
	return nil
}

// announce writes the names of the queues for asynq, again and again.
func (s *Server) announce(ctx context.Context) {
	for wait := forwardEvery; ; {
		timer := time.NewTimer(wait)
		select {
		case <-s.closing:
			timer.Stop()
			return
		case <-timer.C:
		}
		wait = announceEvery
		if err := s.client.Announce(ctx, len(s.of)); err != nil {
			s.log.DebugContext(ctx, "could not announce the queues to asynq; retrying", "error", err)
			wait = forwardEvery
		}
	}
}

// Stop ends the signals. It may be called more than once. It waits for calls to Redis that are under way; when Redis
// does not respond, the driver decides how long.
func (s *Server) Stop() {
	s.once.Do(func() {
		close(s.closing)
		s.working.Wait()
		s.asynq.stop()
	})
}

// Pending implements [dispatch.Queue].
func (s *Server) Pending(partition int) <-chan struct{} {
	return s.of[partition].queues[partition].signal
}

// Look has the server look now whether a task is pending in a partition, which it would else find a little later.
func (s *Server) Look(partition int) { s.of[partition].ask(partition) }

// Archive implements [dispatch.Queue].
func (s *Server) Archive(ctx context.Context, partition int, t dispatch.Task, reason error) error {
	return s.client.Archive(ctx, partition, t, reason)
}

// Ping returns an error when Redis does not reply.
func (s *Server) Ping() error { return s.asynq.ping() }
