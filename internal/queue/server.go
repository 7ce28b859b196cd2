package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

const (
	// forwardInterval is how often due tasks of a lane are moved into the queue; asynq's own default is 5 s.
	forwardInterval = 200 * time.Millisecond
	// neverForward is for servers whose lanes another server of the process looks after.
	neverForward = 24 * time.Hour
	// pollInterval is how long a server sleeps, ± half, after it found nothing: the puller has let it wait before.
	pollInterval = time.Millisecond
)

// Handler works one tick; see [dispatch.Dispatcher.Handle].
type Handler func(ctx context.Context, t dispatch.Tick) error

// ServerConfig of a Server.
type ServerConfig struct {
	// Lanes is how many there are.
	Lanes int
	// Servers is how many asynq servers pull at once: one alone is bound by its round trip. Defaults to 32, at most two
	// per lane.
	Servers int
	// Held is how many ticks may be held or at work at once, over all lanes. Deliveries are bounded apart from it.
	// Defaults to 4,096.
	Held int
	// Spread says that the lanes may be on several servers, as on Redis Cluster.
	Spread bool
	// DrainTimeout is how long Stop waits for handlers. Defaults to 20 s.
	DrainTimeout time.Duration
	Log          *slog.Logger
}

// Server pulls ticks off the lanes and hands them to a handler.
type Server struct {
	servers []*asynq.Server
	puller  *puller
}

// NewServer makes a Server on a connection that stays the caller's.
func NewServer(conn redis.UniversalClient, cfg ServerConfig) *Server {
	cfg.Servers = min(cmp.Or(cfg.Servers, 32), 2*cfg.Lanes)
	cfg.Held = cmp.Or(cfg.Held, 4096)
	cfg.DrainTimeout = cmp.Or(cfg.DrainTimeout, 20*time.Second)
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	names := make([]string, cfg.Lanes)
	for lane := range names {
		names[lane] = dispatch.LaneName(lane)
	}
	s := &Server{puller: newPuller(conn, names, max(1, cfg.Held/cfg.Lanes), cfg.Spread)}
	for i := range cfg.Servers {
		queues := map[string]int{}
		for lane := i % cfg.Lanes; lane < cfg.Lanes; lane += cfg.Servers {
			queues[dispatch.LaneName(lane)] = 1
		}
		forward := forwardInterval
		if i >= cfg.Lanes {
			forward = neverForward
		}
		s.servers = append(s.servers, asynq.NewServerFromRedisClient(s.puller, asynq.Config{
			Concurrency:              max(1, cfg.Held/cfg.Servers),
			Queues:                   queues,
			TaskCheckInterval:        pollInterval,
			DelayedTaskCheckInterval: forward,
			ShutdownTimeout:          cfg.DrainTimeout,
			RetryDelayFunc:           retryDelay,
			IsFailure:                func(error) bool { return false },
			Logger:                   &logger{log: cfg.Log},
			LogLevel:                 asynq.WarnLevel,
		}))
	}
	return s
}

// retryDelay is how long asynq waits before a task comes again: until shortly before a deferral's slot, not at all
// after a lease has ended, a moment after anything else (the record could not be reached).
func retryDelay(_ int, err error, _ *asynq.Task) time.Duration {
	if deferral, ok := errors.AsType[*dispatch.DeferralError](err); ok {
		return max(0, time.Until(deferral.Until)-lead)
	}
	if errors.Is(err, asynq.ErrLeaseExpired) {
		return 0
	}
	return time.Second
}

// Start begins to pull. When one of the servers can't start, those that did are stopped.
func (s *Server) Start(handle Handler) error {
	handler := asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		tick, err := tickOf(ctx, task)
		if err != nil {
			// Not a tick of ours: it can never be worked, and must not come again.
			return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
		}
		return handle(ctx, tick)
	})
	s.puller.start()
	for i, server := range s.servers {
		if err := server.Start(handler); err != nil {
			s.puller.stop()
			for _, started := range s.servers[:i] {
				started.Shutdown()
			}
			return fmt.Errorf("start queue server %d of %d: %w", i+1, len(s.servers), err)
		}
	}
	return nil
}

// Stop lets no server pull any more, and waits for the handlers.
func (s *Server) Stop() {
	s.puller.stop()
	var all sync.WaitGroup
	for _, server := range s.servers {
		all.Go(server.Shutdown)
	}
	all.Wait()
}

// Ping asks whether Redis answers.
func (s *Server) Ping() error { return s.servers[0].Ping() }
