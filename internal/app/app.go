// Package app wires pacer together and takes it apart again. It is the only package that knows all others: what a
// program does is an App with some of its roles.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pacer-notify/pacer/internal/beat"
	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/endpoints"
	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/presence"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/gate"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/redisconn"
	"github.com/pacer-notify/pacer/internal/refusal"
	"github.com/pacer-notify/pacer/internal/retime"
	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/stats"
)

// sweepInterval is how often every partition is looked over for what has to be repaired.
const sweepInterval = time.Second

// lookPatience bounds how long the workers wait for the relay's first look.
const lookPatience = 5 * time.Second

// App is one process of a deployment.
type App struct {
	cfg   *settings.Resolved
	hooks Hooks
	log   *slog.Logger

	deployment *deployment.Deployment
	policy     *policy.Watcher
	publisher  *deployment.Publisher
	channels   *channel.Opened
	senders    push.Registry // what the workers send by: each channel's sender behind its gate
	gates      gate.Gates
	queue      *queue.Client
	endpoints  *endpoints.Directory
	events     *events.Sender // nil without the worker role
	intake     *intake.Intake
	dispatcher *dispatch.Dispatcher
	workers    *queue.Server
	metrics    *ops.Metrics
	registry   *prometheus.Registry
	announcer  *presence.Announcer
	retimer    *retime.Service // nil without the worker role
	follower   *control.Follower
	secrets    *secret.Watcher
	apiTokens  *secret.Tokens
	opsTokens  *secret.Tokens
	tracer     *tracer            // nil unless the environment asks for traces
	live       *ops.Live          // nil without the ops role
	many       *desk.Many         // likewise
	checker    *invariant.Checker // likewise

	api, ops *listener
	draining atomic.Bool

	failed     chan error // why the process can't go on
	background context.CancelFunc
	running    sync.WaitGroup
	closers    []closer
	stopOnce   sync.Once
	stopErr    error
}

// closePatience is how long, beside the drain time-out, [App.Run] waits until all is closed.
const closePatience = 10 * time.Second

// closer is one thing to be undone, last first.
type closer struct {
	name  string
	close func() error
}

// New builds a process: connects to its store and checks it, reads the policy, binds its listeners. It starts no work.
// A [RefusalError] says what must be set right.
func New(ctx context.Context, cfg *settings.Resolved, log *slog.Logger) (*App, error) {
	return Hooks{}.New(ctx, cfg, log)
}

// New is [New] with these hooks.
func (h Hooks) New(ctx context.Context, cfg *settings.Resolved, log *slog.Logger) (_ *App, err error) {
	if cfg.Setup.Embedded() && !cfg.HasRole(settings.RoleWorker) {
		return nil, refusal.New("without REDIS_URL everything lives in one process, which must have the worker role")
	}
	a := &App{
		cfg: cfg, hooks: h.withDefaults(), log: log, registry: prometheus.NewRegistry(), failed: make(chan error, 1),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.closeAll())
		}
	}()
	for _, step := range []func(context.Context) error{
		a.openPolicy, a.openMetrics, a.openDeployment, a.openSecrets, a.openTelemetry, a.openControl, a.openIntake,
		a.openWorkers, a.openAPI, a.openOps,
	} {
		if err := step(ctx); redisconn.NotPermitted(err) {
			return nil, redisconn.RefuseRights(err)
		} else if err != nil {
			return nil, err
		}
	}
	return a, nil
}

// openDeployment opens the channels and connects to the stores.
func (a *App) openDeployment(ctx context.Context) (err error) {
	if err := a.openChannels(); err != nil {
		return err
	}
	a.deployment, err = deployment.Open(ctx, deployment.Config{
		Settings: a.cfg, Policy: a.policy.Current, Channels: a.channels.Set,
		Directory: a.endpoints, Deferred: a.metrics.Deferred, Shadowed: a.metrics.Shadowed,
		Adopted: a.metrics.Adopted, Overflowed: a.metrics.Overflowed,
		Pending: func(partition int) {
			if a.workers != nil {
				a.workers.Look(partition)
			}
		},
		Lost:               func(why error) { a.failed <- why },
		PreferencesChanged: func(userID string) { a.checker.Exempt(userID) }, Hooks: a.hooks.Hooks, Log: a.log,
	})
	if err != nil {
		return err
	}
	a.defers("the deployment", a.deployment.Close)
	a.publisher = a.deployment.Publisher()
	a.queue = queue.NewClient(a.deployment.Redis.Pipe)
	return a.openGates()
}

// defers remembers what Stop has to close, last first.
func (a *App) defers(name string, closing func() error) {
	a.closers = append(a.closers, closer{name, closing})
}

func (a *App) closeAll() error {
	var faults []error
	for len(a.closers) > 0 {
		last := a.closers[len(a.closers)-1]
		a.closers = a.closers[:len(a.closers)-1]
		if err := last.close(); err != nil && !errors.Is(err, net.ErrClosed) {
			faults = append(faults, fmt.Errorf("close %s: %w", last.name, err))
		}
	}
	return errors.Join(faults...)
}

// Start begins to work. What it starts goes on until Stop, whatever becomes of the context; the workers do not start
// when the context ends before their turn.
func (a *App) Start(ctx context.Context) error {
	stopping := ctx.Done()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.background = cancel
	beat.Spread()
	for _, service := range a.services() {
		service = a.hooks.Service(service)
		a.running.Go(func() { service.Run(ctx) })
	}
	for _, l := range []*listener{a.api, a.ops} {
		if l != nil {
			a.running.Go(func() { l.serve(a.log) })
		}
	}
	if a.workers != nil && a.awaitLook(stopping) {
		if err := a.workers.Start(); err != nil { //nolint:contextcheck // it works until Stop, whatever becomes of the context
			return errors.Join(err, a.Stop(ctx))
		}
		a.dispatcher.Start()
	}
	a.logStart(ctx)
	return nil
}

// awaitLook waits until the relay has compared Redis with Postgres, which may be a restored database: before, a worker
// would take what only Redis still knows. It waits lookPatience at most, since a store may be away, and returns false
// when the process is to stop first.
func (a *App) awaitLook(stopping <-chan struct{}) bool {
	if a.deployment.Relay == nil {
		return true
	}
	patience := time.NewTimer(lookPatience)
	defer patience.Stop()
	select {
	case <-a.deployment.Relay.Looked():
	case <-patience.C:
	case <-stopping:
		return false
	}
	return true
}

// services are those of the process's roles.
func (a *App) services() []Service {
	all := []Service{a.announcer, a.policy, a.follower, a.endpoints, a.secrets, a.deployment.Preferences, a.publisher}
	if a.deployment.Memory != nil {
		all = append(all, a.deployment.Memory)
	}
	if a.deployment.Node != nil {
		all = append(all, a.deployment.Node)
	}
	if a.live != nil {
		all = append(all, a.live, a.checker, a.many)
	}
	if a.workers != nil {
		sweeper := dispatch.NewSweeper(a.deployment.Agendas, sweepInterval, a.metrics.Repaired, a.log)
		all = append(all, sweeper, a.events, a.retimer)
		if a.deployment.Relay != nil {
			all = append(all, a.deployment.Relay)
		}
	}
	return all
}

// Stop drains: no delivery starts any more, those in flight are waited for up to the drain time-out, and everything is
// closed. Stopping twice gives the first result. What waits for a store that does not respond, it waits for; see
// [App.Run].
func (a *App) Stop(ctx context.Context) error {
	a.stopOnce.Do(func() {
		a.draining.Store(true)
		a.dispatcher.Stop()
		if a.background != nil {
			a.background()
		}
		for _, l := range []*listener{a.api, a.ops} {
			if l != nil {
				l.shutdown(ctx)
			}
		}
		if a.workers != nil {
			a.workers.Stop()
		}
		a.running.Wait()
		a.stopErr = a.closeAll()
	})
	return a.stopErr
}

// Run works until ctx ends, and then drains. It also drains when the process can't go on, and then gives the reason.
// The driver of a store that does not respond may not heed any context, for minutes: Run does not wait for it, so that
// the process ends before it is killed. The App is of no more use after Run.
func (a *App) Run(ctx context.Context) error {
	if err := a.Start(ctx); err != nil {
		return err
	}
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-a.failed:
	}
	a.log.InfoContext(ctx, "this process is draining: it finishes the deliveries in flight, then stops",
		"in_flight", a.dispatcher.Undone(), "at_most", a.cfg.DrainTimeout.String())
	stopped := make(chan error, 1)
	go func() { stopped <- a.Stop(ctx) }()
	patience := time.NewTimer(a.cfg.DrainTimeout + closePatience)
	defer patience.Stop()
	select {
	case err := <-stopped:
		a.log.InfoContext(ctx, "this process has stopped")
		return errors.Join(failure, err)
	case <-patience.C:
		a.log.WarnContext(ctx, "a store does not respond; this process ends without closing its connections")
		return failure
	}
}

// Stats counts what the deployment holds and did.
func (a *App) Stats(ctx context.Context) (stats.Counts, error) { return a.deployment.Store.Stats(ctx) }

// BuildPartitions builds the partitions that have no state yet, as the workers of a durable deployment do by
// themselves.
func (a *App) BuildPartitions(ctx context.Context) error {
	if a.deployment.Relay == nil {
		return nil
	}
	_, err := a.deployment.Relay.RebuildLost(ctx)
	return err
}

// ReloadPolicy reads the policy file again.
func (a *App) ReloadPolicy(ctx context.Context) error { return a.policy.Reload(ctx) }

// Addr is where the API listens; empty without the role.
func (a *App) Addr() string { return a.api.addr() }

// OpsAddr is where the ops pages listen; empty without the role.
func (a *App) OpsAddr() string { return a.ops.addr() }

// Intake accepts notifications without going through the API.
func (a *App) Intake() *intake.Intake { return a.intake }
