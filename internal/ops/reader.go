package ops

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/presence"
	"github.com/pacer-notify/pacer/internal/redisconn"
	"github.com/pacer-notify/pacer/internal/redismemory"
	"github.com/pacer-notify/pacer/internal/stats"
)

// crowdsShown is how many of the largest crowds the dashboard lists.
const crowdsShown = 15

// Reader reads what operators see of a deployment, and of the process that it runs in.
type Reader struct {
	// Store counts what the deployment holds and did.
	Store interface {
		Stats(ctx context.Context) (stats.Counts, error)
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
	// BreakersOpen counts, by channel, the hosts whose circuit breaker is not closed in this process. InFlight counts
	// its deliveries; Concurrency is the most there may be, and 0 without the worker role.
	BreakersOpen func() map[string]int
	InFlight     func() int
	Concurrency  int
}

// Gauges reads the deployment's counts for the metrics, and this process's load.
func (r *Reader) Gauges(ctx context.Context) (Gauges, error) {
	counts, err := r.Agendas.Stats(ctx)
	if err != nil {
		return Gauges{}, err
	}
	g := Gauges{
		Counts: counts, Paused: r.Follower.Paused(), InFlight: r.InFlight(), Concurrency: r.Concurrency,
		MaxDefer: r.MaxDefer(), BreakersOpen: r.BreakersOpen(), RedisMemory: r.Memory.Ratio(), Policy: r.Policy(),
	}
	var all Snapshot
	if err := r.fillProcesses(ctx, &all); err != nil {
		return Gauges{}, err
	}
	g.PoliciesDiffer = len(versions(all.Processes)) > 1
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

// Away says which of the stores do not respond.
type Away struct {
	Stores []string
	Err    error
}

// Error names the stores, and then the fault.
func (a *Away) Error() string {
	return strings.Join(a.Stores, " and ") + " does not respond: " + a.Err.Error()
}

// Unwrap gives the fault.
func (a *Away) Unwrap() error { return a.Err }

// Snapshot reads what the dashboard shows, without what [Live] computes from one snapshot to the next. Its error is an
// [*Away] when a store does not respond.
func (r *Reader) Snapshot(ctx context.Context) (*Snapshot, error) {
	s, err := r.snapshot(ctx)
	if err == nil {
		return s, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), briefly)
	defer cancel()
	away := &Away{Err: err}
	redis := ping(ctx, func(ctx context.Context) error { return r.Redis.Ping(ctx).Err() })
	if r.Pool != nil && <-ping(ctx, r.Pool.Ping) != nil {
		away.Stores = append(away.Stores, "Postgres")
	}
	if <-redis != nil {
		away.Stores = append([]string{"Redis"}, away.Stores...)
	}
	if len(away.Stores) == 0 {
		return nil, err
	}
	return nil, away
}

func (r *Reader) snapshot(ctx context.Context) (*Snapshot, error) {
	at := time.Now().UTC() // before anything is read, so that it is no older than it says
	counts, err := r.Store.Stats(ctx)
	if err != nil {
		return nil, err
	}
	crowds, err := r.Agendas.Crowds(ctx, crowdsShown)
	if err != nil {
		return nil, err
	}
	pauses, err := r.Control.Pauses(ctx)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{
		At: at, Counts: counts, Crowds: crowds.Largest, CrowdsExact: crowds.Exact, DrainedAt: crowds.Drained,
		Pauses: append(pauses, r.Follower.FromOutside()...), Invariants: Invariants(r.Checker.Latest()),
	}
	s.Categories = r.Categories()
	if err := r.fillProcesses(ctx, s); err != nil {
		return nil, err
	}
	if s.Redis, err = r.redisFigures(ctx); err != nil {
		return nil, err
	}
	markPaused(s.Channels, s.Pauses)
	if r.Pool != nil {
		s.Postgres = r.postgresFigures(ctx)
	}
	return s, nil
}

// postgresPatience is how long a look waits for Postgres.
const postgresPatience = 1500 * time.Millisecond

// postgresFigures asks Postgres for the time, and compares it with Redis's.
func (r *Reader) postgresFigures(ctx context.Context) *Postgres {
	pool := r.Pool.Stat()
	p := &Postgres{
		InUse: pool.AcquiredConns(), Idle: pool.IdleConns(), Max: pool.MaxConns(), Waited: pool.EmptyAcquireCount(),
	}
	asking, cancel := context.WithTimeout(ctx, postgresPatience)
	defer cancel()
	var theirs time.Time
	asked := time.Now()
	err := r.Pool.QueryRow(asking, "SELECT clock_timestamp()").Scan(&theirs)
	took := time.Since(asked)
	p.Took = took.Seconds()
	if err != nil {
		p.Error = "no reply within " + postgresPatience.String()
		if asking.Err() == nil {
			p.Error = err.Error()
		}
		return p
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
		EvictedKeys: number("evicted_keys"),
	}, nil
}
