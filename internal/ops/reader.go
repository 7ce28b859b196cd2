package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/endpoints"
	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/patience"
	"github.com/pacer-notify/pacer/internal/presence"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/redisconn"
	"github.com/pacer-notify/pacer/internal/redismemory"
	"github.com/pacer-notify/pacer/internal/retime"
	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/stats"
)

// crowdsShown is how many of the largest crowds the dashboard lists.
const crowdsShown = 15

// Reader reads what operators see of a deployment, and of the process that it runs in.
type Reader struct {
	// Store counts what the deployment holds and did.
	Store interface {
		Stats(ctx context.Context) (stats.Counts, error)
		History(ctx context.Context, since, until time.Time) ([]stats.Hour, error)
	}
	Agendas *agenda.Agendas
	Redis   redis.UniversalClient
	// Embedded says that Redis runs in this process.
	Embedded bool
	Memory   *redismemory.Watch // nil with an embedded Redis
	Pool     *pgxpool.Pool      // nil without Postgres
	Control  control.Store
	Follower *control.Follower
	Checker  *invariant.Checker
	// ChannelNames and Categories name those of the deployment, in order; MaxDefer is the shortest of any category.
	ChannelNames, Categories func() []string
	MaxDefer                 func() time.Duration
	// Policy is the policy in force in this process.
	Policy func() Policy
	// Secrets keeps those in step that stand in files.
	Secrets *secret.Watcher
	// Endpoints are the webhook endpoints, as this process knows them.
	Endpoints *endpoints.Directory
	// Breakers counts the hosts whose circuit breaker is not closed in this process. InFlight counts
	// its deliveries; Concurrency is the most there may be, and 0 without the worker role.
	Breakers    func() []push.Breakers
	InFlight    func() int
	Concurrency int

	forecasts forecasting
	hourRead  atomic.Bool
}

// thisHour is what ended in the present hour before this process looked; nil when that has been told.
func (r *Reader) thisHour(ctx context.Context, at time.Time) (*stats.Hour, error) {
	if r.hourRead.Load() {
		return nil, nil
	}
	all := stats.Hour{Hour: at.Truncate(time.Hour)}
	hours, err := r.Store.History(ctx, all.Hour, at)
	if err != nil {
		return nil, err
	}
	for _, h := range hours {
		all.Failed, all.Expired = all.Failed+h.Failed, all.Expired+h.Expired
	}
	r.hourRead.Store(true)
	return &all, nil
}

// Gauges reads the deployment's counts for the metrics. What this process knows of itself is there although it fails.
func (r *Reader) Gauges(ctx context.Context) (Gauges, error) {
	up := make(chan map[string]bool, 1)
	go func() { up <- r.up(ctx) }()
	g, err := patience.Ask(ctx, scrapePatience, r.gauges)
	g.Up, g.InFlight, g.Concurrency, g.Breakers = <-up, r.InFlight(), r.Concurrency, r.Breakers()
	g.MaxDefer, g.Policy, g.Secrets = r.MaxDefer(), r.Policy(), SecretsOf(r.Secrets)
	return g, err
}

// scrapePatience is how long a scrape waits for the deployment's counts.
const scrapePatience = 2 * time.Second

// up tells of each store whether this process reaches it.
func (r *Reader) up(ctx context.Context) map[string]bool {
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	asked := map[string]<-chan error{"redis": ping(ctx, func(ctx context.Context) error { return r.Redis.Ping(ctx).Err() })}
	if r.Pool != nil {
		asked["postgres"] = ping(ctx, r.Pool.Ping)
	}
	up := map[string]bool{}
	for store, response := range asked {
		up[store] = <-response == nil
	}
	return up
}

// removed are the categories that this process holds because the policy does not name them, as pauses.
func (r *Reader) removed() (pauses []control.Pause) {
	for category, since := range r.Agendas.Removed() {
		pauses = append(pauses, control.Pause{
			Subject: control.Subject{Kind: control.Category, Name: category}, At: since,
			By: "the policy (" + notification.ReasonRemoved + ")",
		})
	}
	return pauses
}

func (r *Reader) gauges(ctx context.Context) (Gauges, error) {
	counts, err := outlook.Of(r.Agendas).Stats(ctx)
	if err != nil {
		return Gauges{}, err
	}
	g := Gauges{Counts: counts, Paused: r.Follower.Paused(), RedisMemory: r.Memory.Ratio()}
	for _, p := range r.removed() {
		g.Paused = append(g.Paused, p.Subject)
	}
	if g.Retime, err = retime.Read(ctx, r.Redis); err != nil {
		return Gauges{}, err
	}
	var all Snapshot
	if err := r.fillProcesses(ctx, &all); err != nil {
		return Gauges{}, err
	}
	g.PoliciesDiffer = len(versions(all.Processes)) > 1
	g.Workers, g.Gone = len(workersOf(all.Processes)), len(all.Gone)
	for _, p := range all.Processes {
		g.ClocksApart = max(g.ClocksApart, p.ClockAhead, -p.ClockAhead)
	}
	if !r.Embedded {
		info, err := r.Redis.Info(ctx, "memory").Result()
		if err != nil {
			return Gauges{}, fmt.Errorf("ask Redis for its eviction policy: %w", err)
		}
		rule := redisconn.EvictionPolicy(info)
		g.Evicts = rule != "" && rule != "noeviction"
	}
	return g, nil
}

// Away says which of the stores do not respond, and describes those that are slow.
type Away struct {
	Stores, Slow []string
	Err          error
}

// words say what is wrong, and what it means; "" when nothing is.
func (a *Away) words() string {
	switch len(a.Stores) {
	case 0:
	case 1:
		return a.Stores[0] + " does not respond: nothing is delivered until it does"
	default:
		return strings.Join(a.Stores, " and ") + " do not respond: nothing is delivered until they do"
	}
	return strings.Join(a.Slow, "; ")
}

// ask asks a store. What it returns waits for the reply, and notes that the store does not respond or is slow.
func (a *Away) ask(ctx context.Context, store string, request func(context.Context) error) (hear func()) {
	asked, response := time.Now(), ping(ctx, request)
	heard := make(chan func(), 1)
	go func() {
		err := <-response
		took := time.Since(asked)
		heard <- func() {
			switch {
			case err != nil:
				a.Stores = append(a.Stores, store)
			case took >= slowReply:
				a.Slow = append(a.Slow, isSlow(store, took))
			}
		}
	}()
	return func() { (<-heard)() }
}

// Error says what is wrong with the stores, and then the fault.
func (a *Away) Error() string { return a.words() + ": " + a.Err.Error() }

// Unwrap returns the fault.
func (a *Away) Unwrap() error { return a.Err }

// Snapshot reads what the dashboard shows, without what [Live] computes from one snapshot to the next. Its error is an
// [*Away] when a store does not respond.
func (r *Reader) Snapshot(ctx context.Context) (*Snapshot, error) {
	s, err := patience.Ask(ctx, snapshotPatience, r.snapshot)
	if err == nil {
		return s, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storePatience)
	defer cancel()
	away := &Away{Err: err}
	hear := []func(){away.ask(ctx, "Redis", func(ctx context.Context) error { return r.Redis.Ping(ctx).Err() })}
	if r.Pool != nil {
		hear = append(hear, away.ask(ctx, "Postgres", r.Pool.Ping))
	}
	for _, reply := range hear {
		reply()
	}
	if away.words() == "" && errors.Is(err, context.DeadlineExceeded) {
		away.Slow = []string{"The stores take too long to respond to everything"}
	}
	if away.words() == "" {
		return nil, err
	}
	return nil, away
}

// snapshotPatience is how long a look at everything may take. It leaves time to find out which store is away.
const snapshotPatience = lookTimeout - storePatience

func (r *Reader) snapshot(ctx context.Context) (*Snapshot, error) {
	at := time.Now().UTC() // before anything is read, so that it is no older than it says
	postgres := make(chan *Postgres, 1)
	go func() { postgres <- r.postgresFigures(ctx) }() // it takes as long as the rest when Postgres is slow
	counts, err := r.Store.Stats(ctx)
	if err != nil {
		return nil, err
	}
	crowds, err := outlook.Of(r.Agendas).Crowds(ctx, crowdsShown)
	if err != nil {
		return nil, err
	}
	pauses, err := r.Control.Pauses(ctx)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{
		At: at, Counts: counts, Crowds: crowds.Largest, CrowdsExact: crowds.Exact, DrainedAt: crowds.Drained,
		Pauses:     slices.Concat(pauses, r.Follower.FromOutside(), r.removed()),
		Invariants: Invariants(r.Checker.Latest()),
	}
	if progress, err := retime.Read(ctx, r.Redis); err != nil {
		return nil, err
	} else if progress.UnderWay() {
		s.Retime = &progress
	}
	if s.hour, err = r.thisHour(ctx, at); err != nil {
		return nil, err
	}
	s.Categories, s.Forecast = r.Categories(), r.forecast(ctx)
	s.Endpoints = troubled(r.Endpoints)
	if err := r.fillProcesses(ctx, s); err != nil {
		return nil, err
	}
	if s.Redis, err = r.redisFigures(ctx); err != nil {
		return nil, err
	}
	markPaused(s.Channels, s.Pauses)
	s.Postgres = <-postgres
	return s, nil
}

// storePatience is how long a store may take to respond to one question.
const storePatience = 2400 * time.Millisecond

// postgresSQL returns the time; how many statements of this user have waited for a lock for more than a second, and for
// how long; and who holds one of these locks without waiting for another. It reads as many rows as there are
// connections.
const postgresSQL = `WITH waiting AS (
		SELECT pid, extract(epoch FROM clock_timestamp() - query_start)::float8 AS waited FROM pg_stat_activity
		WHERE wait_event_type = 'Lock' AND datname = current_database() AND usename = current_user
			AND query_start < clock_timestamp() - interval '1 second'
	), holder AS (
		SELECT a.pid, a.usename, a.application_name
		FROM (SELECT pid FROM waiting ORDER BY waited DESC LIMIT 1) AS first, unnest(pg_blocking_pids(first.pid)) AS by
			JOIN pg_stat_activity AS a ON a.pid = by
		ORDER BY a.wait_event_type IS NOT DISTINCT FROM 'Lock' LIMIT 1
	)
	SELECT clock_timestamp(), (SELECT count(*) FROM waiting)::int, coalesce((SELECT max(waited) FROM waiting), 0),
		coalesce((SELECT pid FROM holder), 0), coalesce((SELECT usename::text FROM holder), ''),
		coalesce((SELECT application_name FROM holder), '')`

// postgresFigures asks Postgres for the time and compares it with Redis's, and for what its statements wait; nil
// without Postgres.
func (r *Reader) postgresFigures(ctx context.Context) *Postgres {
	if r.Pool == nil {
		return nil
	}
	pool := r.Pool.Stat()
	p := &Postgres{
		InUse: pool.AcquiredConns(), Idle: pool.IdleConns(), Max: pool.MaxConns(), Waited: pool.EmptyAcquireCount(),
	}
	asking, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	var theirs time.Time
	var lock Lock
	asked := time.Now()
	err := r.Pool.QueryRow(asking, postgresSQL).Scan(&theirs, &lock.Statements, &lock.Waited, &lock.PID, &lock.User,
		&lock.Application)
	took := time.Since(asked)
	p.Took = took.Seconds()
	if err != nil {
		p.Error = "no reply within " + storePatience.String()
		if asking.Err() == nil {
			p.Error = err.Error()
		}
		return p
	}
	if lock.Statements > 0 {
		p.Lock = &lock
	}
	middle := asked.Add(took / 2)
	asked = time.Now()
	if redis, err := r.Agendas.Now(ctx); err == nil {
		p.ClockAhead = theirs.Sub(middle).Seconds() - redis.Sub(asked.Add(time.Since(asked)/2)).Seconds()
	}
	return p
}

// fillProcesses fills in the processes, and what they report of the channels.
func (r *Reader) fillProcesses(ctx context.Context, s *Snapshot) error {
	processes, err := presence.List(ctx, r.Redis)
	if err != nil {
		return err
	}
	var reports []Report
	for _, p := range processes {
		var report Report
		if len(p.Report) > 0 {
			if err := json.Unmarshal(p.Report, &report); err != nil {
				continue // of another version
			}
		}
		one := NewProcess(p.Process, report)
		one.ClockAhead = p.ClockAhead
		s.Processes = append(s.Processes, one)
		reports = append(reports, report)
	}
	slices.SortFunc(s.Processes, func(a, b Process) int { return strings.Compare(a.ID, b.ID) })
	s.Channels = channelsOf(r.ChannelNames(), reports)
	s.Gone, err = presence.Missing(ctx, r.Redis, processes)
	return err
}

// redisFigures reads what the Redis server reports of itself.
func (r *Reader) redisFigures(ctx context.Context) (Redis, error) {
	if r.Embedded {
		return Redis{InThisProcess: true}, nil
	}
	info, err := r.Redis.Info(ctx).Result()
	if err != nil {
		return Redis{}, fmt.Errorf("ask Redis for its figures: %w", err)
	}
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			fields[name] = value
		}
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(fields[name], 10, 64) // absent means 0
		return n
	}
	return Redis{
		Version: fields["redis_version"], OpsPerSecond: number("instantaneous_ops_per_sec"),
		Clients: number("connected_clients"),
		Memory:  number("used_memory"), MaxMemory: number("maxmemory"), EvictionRule: fields["maxmemory_policy"],
		AppendOnly: fields["aof_enabled"] == "1", LastSave: fields["rdb_last_bgsave_status"],
		EvictedKeys: number("evicted_keys"), Used: r.Memory.Ratio(), Full: r.Memory.Full(),
	}, nil
}
