// Package app wires pacer together and takes it apart again. It is the only package that knows all others: what a
// program does is an App with some of its roles.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/control"
	pacerdevices "github.com/pacer-notify/pacer/internal/devices"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/hosts"
	"github.com/pacer-notify/pacer/internal/httpapi"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/presence"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/gate"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/redismemory"
	"github.com/pacer-notify/pacer/internal/settings"
	storepostgres "github.com/pacer-notify/pacer/internal/store/postgres"
	storeredis "github.com/pacer-notify/pacer/internal/store/redis"
	"github.com/pacer-notify/pacer/internal/templates"
	"github.com/pacer-notify/pacer/internal/tracing"
)

// sweepInterval is how often every partition is looked over for what has to be mended.
const sweepInterval = time.Second

// App is one process of a deployment.
type App struct {
	cfg *settings.Resolved
	log *slog.Logger
	// attached says that it is no dispatcher: it takes what the deployment's dispatchers published for granted.
	attached bool

	redis   *redisConnection
	memory  *redismemory.Watch // nil with an embedded Redis
	policy  *policy.Watcher
	inForce atomic.Pointer[policy.Policy] // the one that was last told of
	// policySince is when the terms last changed; nil while they are those that the process began with.
	policySince atomic.Pointer[time.Time]
	rules       *rules
	senders     push.Registry
	templates   *templates.Set // nil without
	gates       map[notification.Channel]*gate.Gate
	agendas     *agenda.Agendas
	pool        *pgxpool.Pool // nil without Postgres
	store       store
	relay       *storepostgres.Relay // nil without Postgres
	postgres    *storepostgres.Store // the store, where it is this one
	queue       *queue.Client
	intake      *intake.Intake
	dispatcher  *dispatch.Dispatcher
	workers     *queue.Server
	metrics     *ops.Metrics
	registry    *prometheus.Registry
	announcer   *presence.Announcer
	control     control.Store
	follower    *control.Follower
	tracer      *tracing.Tracer    // nil unless the environment asks for traces
	live        *ops.Live          // nil without the ops role
	checker     *invariant.Checker // likewise

	api, ops *listener
	draining atomic.Bool

	background context.CancelFunc
	running    sync.WaitGroup
	closers    []closer
	stopOnce   sync.Once
	stopErr    error
}

// store is what the parts of a process ask of it.
type store interface {
	dispatch.Store
	intake.Store
	httpapi.Store
	pacerdevices.Store
	invariant.Source
}

// closer is one thing to be undone, last first.
type closer struct {
	name  string
	close func() error
}

// New builds a process: connects to its store and checks it, reads the policy, binds its listeners. It starts no work.
// A [RefusalError] says what must be set right.
func New(ctx context.Context, cfg *settings.Resolved, log *slog.Logger) (_ *App, err error) {
	if cfg.Setup.Embedded() && !cfg.HasRole(settings.RoleWorker) {
		return nil, refuse("without REDIS_URL everything lives in one process, which must have the worker role")
	}
	a := &App{cfg: cfg, log: log, registry: prometheus.NewRegistry()}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.closeAll())
		}
	}()
	for _, step := range []func(context.Context) error{
		a.openPolicy, a.openDatabase, a.openRedis, a.openStore, a.checkImported, a.checkMoved, a.openTracing,
		a.openControl, a.openMetrics, a.openWorkers, a.openListeners,
	} {
		if err := step(ctx); notPermitted(err) {
			return nil, refusedRights(err)
		} else if err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (a *App) openPolicy(context.Context) error {
	watcher, err := policy.NewWatcher(policy.WatcherConfig{
		Path: a.cfg.Policy, Logger: a.log, OnChange: a.policyChanged,
	})
	if err != nil {
		return &RefusalError{Reason: err.Error()}
	}
	a.policy = watcher
	a.inForce.Store(watcher.Current())
	return nil
}

func (a *App) openRedis(ctx context.Context) error {
	store, err := openRedis(ctx, a.cfg.Redis)
	if err != nil {
		return err
	}
	a.redis = store
	a.defers("Redis", store.close)
	if err := store.agreeOnPartitions(ctx, a.cfg.Partitions); err != nil {
		return err
	}
	return a.publishPolicy(ctx, a.policy.Current())
}

// openDatabase connects to Postgres where there is one.
func (a *App) openDatabase(ctx context.Context) error {
	if a.cfg.DatabaseURL == "" {
		return nil
	}
	pool, err := openDatabase(ctx, a.cfg.DatabaseURL)
	if err != nil {
		return err
	}
	a.pool = pool
	a.defers("Postgres", func() error { pool.Close(); return nil })
	if a.cfg.Setup == settings.SetupDurableOneNode {
		release, err := takeNode(ctx, pool)
		if err != nil {
			return err
		}
		a.defers("the database's lock", release)
	}
	return nil
}

func (a *App) openStore(ctx context.Context) error {
	if err := a.openTemplates(); err != nil {
		return err
	}
	channels, senders, closeSenders, err := openChannels(a.cfg, a.log)
	if err != nil {
		return err
	}
	a.defers("senders", closeSenders)
	if a.senders, err = a.gated(mutateSenders(senders), channels); err != nil {
		return err
	}
	if err := a.openStoreWith(ctx, a.policy.Current, channels); err != nil {
		return err
	}
	return errors.Join(a.publishChannels(ctx), a.publishTemplates(ctx))
}

// openStoreWith sets up the agendas and the store over them, under the policy that current gives.
func (a *App) openStoreWith(ctx context.Context, current func() *policy.Policy, channels channels) (err error) {
	a.rules = &rules{current: current, channels: channels}
	if !a.cfg.Setup.Embedded() {
		a.memory = redismemory.New(a.redis.client, a.log)
		if err := a.memory.Look(ctx); err != nil { // of one server of several, say: it is looked at again and again
			a.log.WarnContext(ctx, "look at the memory of Redis", "error", err)
		}
	}
	a.agendas, err = agenda.New(a.redis.pipe, agenda.Config{
		Full:   a.memory.Full,
		Direct: a.redis.client, Partitions: a.cfg.Partitions, Settings: a.rules.Settings,
		Categories: a.rules.categories,
		Personal:   a.rules.personal, Guarded: a.pool != nil, Retention: a.retention(),
		Apart: a.attached, Deferred: a.deferred,
	})
	if err != nil {
		return err
	}
	a.queue = queue.NewClient(a.redis.pipe)
	if a.pool != nil {
		return a.openPostgresStore(ctx)
	}
	a.store = storeredis.New(a.redis.pipe, a.agendas)
	return a.refuseTicks(ctx)
}

// retention is how long Redis remembers an ended notification: long enough for a question asked again where Postgres
// keeps the store, else the agendas' own default.
func (a *App) retention() time.Duration {
	if a.pool != nil {
		return time.Minute
	}
	return 0
}

// openIntake sets up accepting; accepted, which may be nil, is told the category of each notification.
func (a *App) openIntake(accepted func(category string)) {
	full := a.memory.Full
	if a.pool != nil { // Postgres takes it, and the relay waits until Redis has room
		full = nil
	}
	a.intake = intake.New(intake.Config{
		Full: full, Store: a.store, Rules: a.rules, Render: a.renderer(), HasDevice: a.hasDevice,
		Trace: a.traceAccept(), Accepted: accepted, Log: a.log,
	})
}

func (a *App) openMetrics(context.Context) error {
	metrics, err := ops.NewMetrics(a.registry)
	if err != nil {
		return fmt.Errorf("register the metrics: %w", err)
	}
	a.metrics = metrics
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		ops.NewGaugeCollector(a.gauges),
	} {
		if err := a.registry.Register(c); err != nil {
			return fmt.Errorf("register the metrics: %w", err)
		}
	}
	a.openIntake(metrics.Accepted)
	return nil
}

func (a *App) openWorkers(context.Context) error {
	if a.cfg.HasRole(settings.RoleWorker) {
		a.workers = queue.NewServer(a.redis.pipe, queue.ServerConfig{
			Partitions: a.cfg.Partitions, Spread: a.cfg.Redis != nil && a.cfg.Redis.Kind == settings.RedisCluster,
			Log: a.log,
		})
	}
	a.rules.pausedFor = a.categoryRests
	a.dispatcher = dispatch.New(dispatch.Config{
		Partitions: a.cfg.Partitions, Concurrency: a.cfg.Concurrency, DrainTimeout: a.cfg.DrainTimeout,
		Retry:    a.rules.Retry,
		MaxDefer: a.rules.MaxDefer, ChannelPaused: a.channelRests, Trace: a.traceDeliver(), Observer: a.metrics,
		Log: a.log,
	}, mutateStore(a.store), a.workers, a.toDevices(a.senders))
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find this host's name: %w", err)
	}
	a.announcer = presence.NewAnnouncer(a.redis.client, host, a.roles(), a.dispatcher.InFlight, a.log)
	a.announcer.Reporting(a.report)
	return nil
}

func (a *App) openListeners(ctx context.Context) error {
	if a.cfg.HasRole(settings.RoleAPI) {
		handler, err := a.apiHandler(a.cfg.APITokens, hosts.New(a.cfg.Listen, a.cfg.AllowedHosts).Has)
		if err != nil {
			return err
		}
		if a.tracer != nil {
			handler = a.tracer.Handler(handler)
		}
		if a.api, err = listen(ctx, "API", a.cfg.Listen, mutateAPI(httpapi.Server(handler))); err != nil {
			return err
		}
		a.defers("API listener", a.api.close)
	}
	if a.cfg.HasRole(settings.RoleOps) {
		a.openAuditor()
		a.live = ops.NewLive(a.snapshot, a.log)
		handler := ops.Handler(ops.Config{
			Ready: a.Ready, Explain: a.store.View, User: a.user, Channels: a.channels, Live: a.live,
			Actions: actions{a},
			Token:   a.cfg.OpsToken, Host: hosts.New(a.cfg.OpsListen, a.cfg.AllowedHosts).Has, Metrics: a.registry,
			Log: a.log,
		})
		var err error
		if a.ops, err = listen(ctx, "ops pages", a.cfg.OpsListen,
			&http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}); err != nil {
			return err
		}
		a.defers("ops listener", a.ops.close)
	}
	return nil
}

// defers remembers what Stop has to undo, last first.
func (a *App) defers(name string, undo func() error) {
	a.closers = append(a.closers, closer{name, undo})
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

// Start begins to work. What it starts goes on until Stop, whatever becomes of the context.
func (a *App) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.background = cancel
	a.running.Go(func() { a.announcer.Run(ctx) })
	a.running.Go(func() { a.policy.Run(ctx) })
	if a.memory != nil {
		a.running.Go(func() { a.memory.Run(ctx) })
	}
	a.running.Go(func() { a.follower.Run(ctx) })
	if a.live != nil {
		a.running.Go(func() { a.live.Run(ctx) })
		a.running.Go(func() { a.checker.Run(ctx) })
	}
	if a.rules.own != nil {
		a.running.Go(func() { a.rules.own.Run(ctx) })
	}
	for _, l := range []*listener{a.api, a.ops} {
		if l != nil {
			a.running.Go(func() { l.serve(a.log) })
		}
	}
	if a.workers != nil {
		sweeper := dispatch.NewSweeper(a.agendas, sweepInterval, a.metrics.Repaired, a.log)
		if !mutation("no-sweep") {
			a.running.Go(func() { sweeper.Run(ctx) })
		}
		if a.relay != nil {
			a.running.Go(func() { a.relay.Run(ctx) })
		}
		if err := a.workers.Start(); err != nil { //nolint:contextcheck // it works until Stop, whatever becomes of the context
			return errors.Join(err, a.Stop(ctx))
		}
		a.dispatcher.Start()
	}
	a.logFacts(ctx)
	return nil
}

// Stop drains: no delivery starts any more, those in flight are waited for up to the drain time-out, and everything is
// closed. Stopping twice gives the first result.
func (a *App) Stop(ctx context.Context) error {
	a.stopOnce.Do(func() {
		a.draining.Store(true)
		a.dispatcher.Stop()
		if a.workers != nil {
			a.workers.Stop()
		}
		if a.background != nil {
			a.background()
		}
		for _, l := range []*listener{a.api, a.ops} {
			if l != nil {
				l.shutdown(ctx)
			}
		}
		a.running.Wait()
		a.stopErr = a.closeAll()
	})
	return a.stopErr
}

// Run works until ctx ends, and then drains.
func (a *App) Run(ctx context.Context) error {
	if err := a.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	a.log.InfoContext(ctx, "draining", "in_flight", a.dispatcher.InFlight(), "at_most", a.cfg.DrainTimeout.String())
	err := a.Stop(ctx)
	a.log.InfoContext(ctx, "stopped")
	return err
}

// BuildPartitions builds the partitions that have no state yet, as the workers of a durable deployment do by
// themselves.
func (a *App) BuildPartitions(ctx context.Context) error {
	if a.relay == nil {
		return nil
	}
	_, err := a.relay.RebuildLost(ctx)
	return err
}

// ReloadPolicy reads the policy file again.
func (a *App) ReloadPolicy() error { return a.policy.Reload() }

// Addr and OpsAddr are where the API and the ops pages listen; empty without the role.
func (a *App) Addr() string { return a.api.addr() }

// OpsAddr is where the ops pages listen; empty without the role.
func (a *App) OpsAddr() string { return a.ops.addr() }

// Intake accepts notifications without going through the API.
func (a *App) Intake() *intake.Intake { return a.intake }
