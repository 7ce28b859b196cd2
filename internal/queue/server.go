package queue

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

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
	client  *Client
	asynq   *asynqServer
	watcher *watcher

	closing  chan struct{}
	once     sync.Once
	watching sync.WaitGroup
}

// NewServer makes a Server. The connection stays the caller's to close.
func NewServer(conn redis.UniversalClient, cfg ServerConfig) *Server {
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	closing, client := make(chan struct{}), NewClient(conn)
	return &Server{
		client:  client,
		closing: closing,
		asynq:   newAsynqServer(conn, cfg.Partitions, cmp.Or(cfg.Concurrency, 256), closing, cfg.Log),
		watcher: newWatcher(client, cfg.Partitions, cfg.Spread, closing, cfg.Log),
	}
}

// Start begins to watch the queues. A Server starts once.
func (s *Server) Start() error {
	if err := s.asynq.start(); err != nil {
		return fmt.Errorf("start the queue's server: %w", err)
	}
	s.watching.Go(func() { s.watcher.watch(context.Background()) })
	return nil
}

// Stop ends the signals. It may be called more than once.
func (s *Server) Stop() {
	s.once.Do(func() {
		close(s.closing)
		s.watching.Wait()
		s.asynq.stop()
	})
}

// Pending implements [dispatch.Queue].
func (s *Server) Pending(partition int) <-chan struct{} { return s.watcher.queues[partition].signal }

// Look has the server look now whether a task is pending in a partition, which it would else find a little later.
func (s *Server) Look(partition int) { s.watcher.ask(partition) }

// Archive implements [dispatch.Queue].
func (s *Server) Archive(ctx context.Context, partition int, t dispatch.Task, reason error) error {
	return s.client.Archive(ctx, partition, t, reason)
}

// Ping returns an error when Redis does not reply.
func (s *Server) Ping() error { return s.asynq.ping() }
