package app

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/presence"
)

// crowdsShown is how many of the largest crowds the dashboard lists.
const crowdsShown = 15

// Snapshot is what ops see of a deployment, for the commands that show it.
type Snapshot = ops.Snapshot

// report is what this process tells the others' dashboards of itself.
func (a *App) report() any {
	r := ops.Report{Lateness: a.metrics.LatenessCounts(), Channels: a.channels()}
	if a.workers != nil {
		r.Concurrency = a.cfg.Concurrency
	}
	return r
}

// snapshot reads what the dashboard shows, but for what follows from the snapshot before.
func (a *App) snapshot(ctx context.Context) (*ops.Snapshot, error) {
	at := time.Now().UTC() // before anything is read, so that it is no older than it says
	counts, err := a.store.Stats(ctx)
	if err != nil {
		return nil, err
	}
	crowds, exact, err := a.agendas.Crowds(ctx, crowdsShown)
	if err != nil {
		return nil, err
	}
	pauses, err := a.control.Pauses(ctx)
	if err != nil {
		return nil, err
	}
	s := &ops.Snapshot{
		At: at, Counts: counts, CrowdsExact: exact, Pauses: append(pauses, a.follower.FromOutside()...),
		Audit: ops.Audit(a.checker.Latest()),
	}
	for _, c := range crowds {
		s.Crowds = append(s.Crowds, ops.Crowd(c))
	}
	s.Categories = slices.Sorted(maps.Keys(a.policy.Current().Categories))
	if err := a.fillProcesses(ctx, s); err != nil {
		return nil, err
	}
	if s.Redis, err = a.redisFigures(ctx); err != nil {
		return nil, err
	}
	if a.pool != nil {
		pool := a.pool.Stat()
		s.Postgres = &ops.Postgres{
			InUse: pool.AcquiredConns(), Idle: pool.IdleConns(), Max: pool.MaxConns(), Waited: pool.EmptyAcquireCount(),
		}
	}
	return s, nil
}

// fillProcesses fills in the processes, and what they say of the channels.
func (a *App) fillProcesses(ctx context.Context, s *ops.Snapshot) error {
	processes, err := presence.List(ctx, a.redis.client)
	if err != nil {
		return err
	}
	channels := map[string][]ops.ProcessHost{}
	for _, name := range a.rules.channels.names() {
		channels[name] = []ops.ProcessHost{}
	}
	for _, p := range processes {
		var report ops.Report
		if len(p.Report) > 0 {
			if err := json.Unmarshal(p.Report, &report); err != nil {
				continue // of another version
			}
		}
		s.Processes = append(s.Processes, ops.NewProcess(p.Process, report))
		for _, channel := range report.Channels {
			for _, host := range channel.Hosts {
				channels[channel.Channel] = append(channels[channel.Channel],
					ops.ProcessHost{Process: p.ID, Host: host})
			}
		}
	}
	slices.SortFunc(s.Processes, func(a, b ops.Process) int { return strings.Compare(a.ID, b.ID) })
	for _, name := range slices.Sorted(maps.Keys(channels)) {
		s.Channels = append(s.Channels, ops.Health{Channel: name, Hosts: channels[name]})
	}
	return nil
}

// redisFigures reads what the server says of itself.
func (a *App) redisFigures(ctx context.Context) (ops.Redis, error) {
	if a.cfg.Setup.Embedded() {
		return ops.Redis{InThisProcess: true}, nil
	}
	info, err := a.redis.client.Info(ctx).Result()
	if err != nil {
		return ops.Redis{}, fmt.Errorf("ask Redis for its figures: %w", err)
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
	return ops.Redis{
		Version: fields["redis_version"], OpsPerSecond: number("instantaneous_ops_per_sec"),
		Clients: number("connected_clients"),
		Memory:  number("used_memory"), MaxMemory: number("maxmemory"), EvictionRule: fields["maxmemory_policy"],
		AppendOnly: fields["aof_enabled"] == "1", LastSave: fields["rdb_last_bgsave_status"],
		EvictedKeys: number("evicted_keys"),
	}, nil
}
