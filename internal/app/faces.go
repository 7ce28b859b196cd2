package app

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pacer-notify/pacer/internal/httpapi"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/presence"
	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/internal/version"
)

// openAPI binds the listener of the API, in the processes with its role.
func (a *App) openAPI(ctx context.Context) error {
	if !a.cfg.HasRole(settings.RoleAPI) {
		return nil
	}
	handler, err := a.apiHandler(a.apiTokens, settings.NewHosts(a.cfg.Listen, a.cfg.AllowedHosts).Has, a.registry)
	if err != nil {
		return err
	}
	if a.tracer != nil {
		handler = a.tracer.handler(handler)
	}
	server := httpapi.Server(handler)
	a.hooks.API(server)
	if a.api, err = listen(ctx, "API", a.cfg.Listen, a.cfg.AnyPort, server); err != nil {
		return err
	}
	a.defers("API listener", a.api.close)
	return nil
}

// apiHandler makes the API over this process's store, to be asked under the hosts that host says; nil for all. It has
// metrics unless the registry is nil.
func (a *App) apiHandler(tokens *secret.Tokens, host func(string) bool, metrics prometheus.Registerer) (
	http.Handler, error,
) {
	d := a.deployment
	limiter := throttle.NewRedis(d.Redis.Pipe, func(string) string { return "pacer:{api}:" })
	callers, err := httpapi.CallerLimit(limiter, settings.RulesOf(a.cfg.APILimits),
		settings.RulesOf(a.cfg.APIRouteLimits), a.log)
	if err != nil {
		return nil, err
	}
	cfg := httpapi.Config{
		Intake: a.intake, Store: d.Store, Desk: d.Desk(a.follower), Devices: a.devices(), Users: d.Users(),
		CheckCategory: d.Rules.CheckCategory, List: d.Store.List, Names: d.Rules.Vocabulary,
		Endpoints: d.EndpointService(), Events: d.Events,
		Throttle: d.Windows(),
		Processes: func(ctx context.Context) ([]stats.Process, error) {
			return presence.Alive(ctx, d.Redis.Client)
		},
		Tokens: tokens, Host: host, CallerLimit: callers, Metrics: metrics, Inbox: d.Inbox(),
		Version: version.Current().Version, Log: a.log, Channels: d.Rules.Formats(),
	}
	if a.channels != nil {
		cfg.PublicKey = a.channels.PublicKey
	}
	return httpapi.New(cfg)
}

// openOps binds the listener of the ops pages, in the processes with their role.
func (a *App) openOps(ctx context.Context) error {
	if !a.cfg.HasRole(settings.RoleOps) {
		return nil
	}
	a.checker = a.deployment.Checker(a.follower, a.metrics.Checked)
	reader := a.reader()
	if err := reader.Register(a.registry); err != nil {
		return err
	}
	a.live, a.many = ops.NewLive(reader.Snapshot, a.log), a.deployment.Many(a.intake)
	handler := ops.Handler(ops.Config{
		Ready: a.Ready, Desk: a.deployment.Desk(a.follower), Channels: a.health, Live: a.live,
		Policy: a.policyInForce, DiffPolicy: a.deployment.DiffPolicy,
		ForcePolicy:   a.deployment.ForcePolicy,
		PolicyContent: func() ops.PolicyContent { return contentOf(a.policy.Current(), a.cfg.Channels) },
		Many:          a.many, Actions: a.operator(), Tokens: a.opsTokens,
		Host: settings.NewHosts(a.cfg.OpsListen, a.cfg.AllowedHosts).Has, Metrics: a.registry, Log: a.log,
	})
	var err error
	if a.ops, err = listen(ctx, "ops pages", a.cfg.OpsListen, a.cfg.AnyPort, opsServer(handler)); err != nil {
		return err
	}
	a.defers("ops listener", a.ops.close)
	return nil
}

// opsServer makes the HTTP server for the ops pages. It keeps a connection from one scrape to the next, which may be
// minutes; responses may take for ever, since the dashboard's do.
func opsServer(handler http.Handler) *http.Server {
	return &http.Server{Handler: handler, ReadTimeout: httpapi.ReadTimeout, IdleTimeout: 5 * time.Minute}
}

func (a *App) reader() *ops.Reader {
	d := a.deployment
	reader := &ops.Reader{
		Store: d.Store, Agendas: d.Agendas, Redis: d.Redis.Client, Embedded: a.cfg.Setup.Embedded(), Memory: d.Memory,
		Pool: d.Pool, Control: d.Control, Follower: a.follower, Checker: a.checker,
		ChannelNames: a.channels.Names, Policy: a.policyInForce, Secrets: a.secrets, Endpoints: a.endpoints,
		Categories: d.Rules.CategoryNames, MaxDefer: d.Rules.ShortestMaxDefer, InFlight: a.dispatcher.InFlight,
		Breakers: a.gates.Breakers,
	}
	if a.workers != nil {
		reader.Concurrency = a.cfg.Concurrency
	}
	return reader
}

func (a *App) operator() *ops.Operator {
	d := a.deployment
	return &ops.Operator{
		Control: d.Control, Follower: a.follower, Queue: a.queue, Many: a.many,
		Channels: a.channels.Names, Categories: d.Rules.CategoryNames, Partitions: a.cfg.Partitions, Log: a.log,
	}
}

// Ready reports whether the process can take what its roles promise.
func (a *App) Ready(ctx context.Context) ops.Readiness {
	check := ops.ReadyCheck{
		Redis: func(ctx context.Context) error { return a.deployment.Redis.Client.Ping(ctx).Err() },
		API:   a.cfg.HasRole(settings.RoleAPI), Draining: a.draining.Load,
	}
	if a.deployment.Pool != nil {
		check.Postgres = a.deployment.Pool.Ping
	}
	return check.Ready(ctx)
}
