// Package deployment connects a process to its deployment: to Redis and Postgres, to the store over them, and to what
// all its processes have in common.
//
// A dispatcher opens its deployment with its own settings, and publishes on Redis what others have to know: the number
// of partitions, the policy in force, the channels and the templates. A producer that writes to the queue itself, or a
// command for operators, attaches to the deployment: it uses what was published.
package deployment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/devices"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/effective"
	"github.com/pacer-notify/pacer/internal/endpoints"
	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/httpapi"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/preferences"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/reach"
	"github.com/pacer-notify/pacer/internal/redisconn"
	"github.com/pacer-notify/pacer/internal/redismemory"
	"github.com/pacer-notify/pacer/internal/refusal"
	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/settings"
	storepostgres "github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/internal/store/postgres/connect"
	"github.com/pacer-notify/pacer/internal/store/postgres/relay"
	"github.com/pacer-notify/pacer/internal/templates"
)

// Deployment is a process's side of its deployment.
type Deployment struct {
	// Redis are the connections to Redis.
	Redis *redisconn.Conn
	// Memory watches how full Redis is. It is nil while Redis runs in this process.
	Memory *redismemory.Watch
	// Pool are the connections to Postgres. It, Postgres and Relay are nil without Postgres.
	Pool *pgxpool.Pool
	// Rules are the policy in force and the channels.
	Rules *Rules
	// Published is the policy of an attached process, which its Run keeps in step with the dispatchers'; nil in a
	// dispatcher, which has a file of its own.
	Published *PublishedPolicy
	// Agendas decide who goes when.
	Agendas *agenda.Agendas
	// Store keeps the notifications. Where it is the one in Postgres, Postgres is the same store, and Relay keeps Redis
	// in step with it.
	Store    Store
	Postgres *storepostgres.Store
	Relay    *relay.Relay
	// Node keeps the database for this process alone; nil unless it must be alone.
	Node *connect.Node
	// Preferences is what users want.
	Preferences *preferences.Follower
	// Control keeps pauses and the audit log.
	Control control.Store
	// Endpoints keeps the webhook endpoints, Events what happened to them.
	Endpoints *endpoints.Store
	Events    events.Store

	cfg      Config
	attached bool
	// unpublished is true when an attached process has the built-in policy, since none is published and its settings
	// name none: it does not know the deployment's.
	unpublished bool
	publishing  *publishing
	templates   *templates.Set // nil without
	login       *connect.Login // nil without Postgres
}

// Store is what the parts of a process ask of the store.
type Store interface {
	dispatch.Store
	intake.Store
	httpapi.Store
	desk.ManyStore
	devices.Store
	invariant.Source
	desk.Store
	UserStore
}

// Config says what a dispatcher opens its deployment with.
type Config struct {
	Settings *settings.Resolved
	// Policy gives the policy in force.
	Policy func() *policy.Policy
	// Channels are those that the settings configure.
	Channels channel.Set
	// Deferred counts deferrals, by the rule that caused them.
	Deferred func(category, rule string, n int)
	// Shadowed counts what a shadow rule would have had wait.
	Shadowed func(category, rule string)
	// Overflowed counts what overflow ladders did to notifications, see [agenda.Config].
	Overflowed func(category, action string)
	// Pending is told in which partition an accept of this process made the first wake-up pending.
	Pending func(partition int)
	// Adopted counts what processes without metrics of their own accepted.
	Adopted func(category string, n int64)
	// Lost is told why this process must end, when another one has taken the database that it had to itself.
	Lost func(error)
	// Directory is what the process knows of the webhook endpoints. Defaults to one of its own.
	Directory *endpoints.Directory
	// PreferencesChanged is called when the preferences of a user have changed. Defaults to nothing.
	PreferencesChanged func(userID string)
	Hooks              Hooks
	Log                *slog.Logger
}

// Hooks change how a deployment is connected to. All of them are optional.
type Hooks struct {
	// Redis makes the client of Redis. Defaults to [redis.NewUniversalClient].
	Redis redisconn.Opener
	// Database changes the settings of the connections to Postgres, Relay those of the relay.
	Database func(*pgxpool.Config)
	Relay    func(*relay.Config)
}

// Open connects a dispatcher to its deployment, and publishes what producers have to know of it.
func Open(ctx context.Context, cfg Config) (_ *Deployment, err error) {
	d := &Deployment{cfg: cfg}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if d.templates, err = loadTemplates(cfg.Settings); err != nil {
		return nil, err
	}
	if err := d.connect(ctx); err != nil {
		return nil, err
	}
	if err := d.agreeOnPartitions(ctx); err != nil {
		return nil, err
	}
	if err := d.openStore(ctx, cfg.Policy, cfg.Channels); err != nil {
		return nil, err
	}
	if err := d.settleStore(ctx); err != nil {
		return nil, err
	}
	if err := d.wantEvents(ctx); err != nil {
		return nil, err
	}
	return d, d.publishing.everything(ctx)
}

// Attach connects to a deployment's stores without taking part in its work. Partitions and policy are those that its
// dispatchers run with; before the first of them has started, they are what the settings say.
func Attach(ctx context.Context, cfg *settings.Resolved, log *slog.Logger) (_ *Deployment, err error) {
	d := &Deployment{cfg: Config{Settings: cfg, Log: log}, attached: true}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if err := d.connect(ctx); err != nil {
		return nil, err
	}
	if err := d.adoptPartitions(ctx); err != nil {
		return nil, err
	}
	client := d.Redis.Client
	current, err := Policy(ctx, client)
	if err != nil {
		return nil, err
	}
	if current == nil {
		d.unpublished = cfg.Policy == ""
		if current, err = policyOf(cfg); err != nil {
			return nil, err
		}
	}
	channels, err := Channels(ctx, client)
	if err != nil {
		return nil, err
	}
	d.Published = &PublishedPolicy{client: client, log: log, replaced: func() { d.Rules.Replaced() }}
	d.Published.current.Store(current)
	if err := d.openStore(ctx, d.Published.Current, channels); err != nil {
		return nil, err
	}
	return d, d.heedPauses(ctx)
}

// heedPauses has what is paused now hold back what waits, where nobody follows what operators do.
func (d *Deployment) heedPauses(ctx context.Context) error {
	pauses, wanted, err := d.Control.Told(ctx)
	if err == nil {
		err = d.Agendas.Events.Want(wanted.At(time.Now()))
	}
	if err != nil {
		return err
	}
	var paused []control.Subject
	for _, p := range pauses {
		paused = append(paused, p.Subject)
	}
	wait := func(kind control.Kind, name string) time.Duration {
		if slices.Contains(paused, control.Subject{Kind: kind, Name: name}) {
			return time.Minute
		}
		return 0
	}
	d.Rules.Heed(wait, func() []control.Subject { return paused })
	return nil
}

// policyOf reads the policy that the settings name.
func policyOf(cfg *settings.Resolved) (*policy.Policy, error) {
	watcher, err := policy.NewWatcher(policy.WatcherConfig{Path: cfg.Policy})
	if err != nil {
		return nil, refusal.New("%v", err)
	}
	return watcher.Current(), nil
}

// connect connects to Postgres, where there is one, and to Redis.
func (d *Deployment) connect(ctx context.Context) (err error) {
	cfg := d.cfg.Settings
	if cfg.DatabaseURL != "" {
		d.login = connect.NewLogin(cfg.DatabaseURL)
		if d.Pool, err = connect.Open(ctx, cfg.DatabaseURL, d.prepareDatabase); err != nil {
			return err
		}
		if cfg.Setup == settings.SetupDurableOneNode {
			if d.Node, err = connect.TakeNode(ctx, d.Pool, d.cfg.Lost, d.cfg.Log); err != nil {
				return err
			}
		}
	}
	d.Redis, err = redisconn.Open(ctx, cfg.Redis, d.cfg.Hooks.Redis, &reach.Store{
		Name: "Redis", Stops: d.stops(), Log: d.cfg.Log,
	})
	return err
}

// stops says what does not work without Redis, and what does.
func (d *Deployment) stops() string {
	if d.Pool != nil {
		return "nothing is delivered; what is accepted waits in Postgres"
	}
	return "nothing is delivered, and requests are refused with 503"
}

// prepareDatabase changes how connections to Postgres are made.
func (d *Deployment) prepareDatabase(config *pgxpool.Config) {
	d.login.Prepare(config)
	postgres := &reach.Store{
		Name: "Postgres", Stops: "nothing is delivered, and requests are refused with 503", Log: d.cfg.Log,
	}
	config.ConnConfig.DialFunc = postgres.Dial(config.ConnConfig.DialFunc)
	if change := d.cfg.Hooks.Database; change != nil {
		change(config)
	}
}

// Sources are the connection strings that stand in files: new connections use the user and password that these hold.
func (d *Deployment) Sources() []secret.Source {
	renewed, sources := d.cfg.Settings.Renewed, []secret.Source{}
	if d.cfg.Settings.Redis != nil {
		sources = append(sources, renewed.Redis.Source(d.Redis.Renew))
	}
	if d.login != nil {
		sources = append(sources, renewed.Database.Source(d.login.Renew))
	}
	if keys := d.cfg.Settings.Keys; !keys.None() {
		sources = append(sources, renewed.UnsubscribeKey.Source(keys.Renew))
	}
	if keys := d.cfg.Settings.Events.Keys; keys != nil {
		sources = append(sources, renewed.EventsSecret.Source(keys.Renew))
	}
	return sources
}

// Hurry has everything tried again at once that waits because its channel's credentials were refused.
func (d *Deployment) Hurry(ctx context.Context) {
	var allow func(context.Context, []string) error
	if d.Postgres != nil {
		allow = d.Postgres.Hurry
	}
	effective.Hurry(ctx, d.Agendas, allow, d.cfg.Log)
}

// Close waits for what the store is doing and ends the connections.
func (d *Deployment) Close() error {
	var faults []error
	end := func(what string, end func() error) {
		if err := end(); err != nil && !errors.Is(err, net.ErrClosed) {
			faults = append(faults, fmt.Errorf("close %s: %w", what, err))
		}
	}
	if d.Postgres != nil {
		end("the store", d.Postgres.Close)
	}
	if d.Redis != nil {
		end("Redis", d.Redis.Close)
	}
	if d.Node != nil {
		end("the database's lock", d.Node.Release)
	}
	if d.Pool != nil {
		d.Pool.Close()
	}
	return errors.Join(faults...)
}
