// Package agenda keeps, on Redis, what waits for each user: a backlog per category, ordered by priority and arrival, what is
// due later, what is in flight, the limiter's windows, and one wake-up, all judged and changed together in one script per step.
// Entries carry an opaque payload, so that a store elsewhere can stand behind them.
//
// While anything of a user waits, a wake-up stands at or before the earliest moment at which something of it may go. A wake-up
// is a task of asynq's queue (see package queue), written by the same scripts, so there is no moment between changing an
// agenda and changing its wake-up.
//
// The Lua sources are in the folder lua; agenda.lua lists every key.
package agenda

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/batch"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/script"
	"github.com/pacer-notify/pacer/internal/throttle"
)

//go:embed lua
var sources embed.FS

// Settings are what the policy, the user's own limits and the operators say of a user's category.
type Settings struct {
	Plan throttle.Plan
	// MaxDefer is how long a notification may wait for its slot.
	MaxDefer time.Duration
	// BypassFrom is the least urgent priority that is delivered at once, as the policy's BypassFrom gives it; 0 none.
	BypassFrom notification.Priority
	// Paused is how long nothing of the category is given out; 0 while it is not paused.
	Paused time.Duration
}

// Config of a Agendas.
type Config struct {
	// Direct is the client behind the one that the Agendas is given, for what is asked of each server of a cluster by itself.
	// Defaults to that one.
	Direct redis.UniversalClient
	// Partitions is how many partitions the deployment has.
	Partitions int
	// Settings gives the current settings of a user's category; it must know every name.
	Settings func(userID, category string) Settings
	// Categories lists those that have the same settings for every user without limits of his own: what a wake-up stands for
	// there is granted in the round that takes it off the queue. Defaults to none.
	Categories func() []string
	// Personal tells whether a user has limits of his own. Defaults to nobody.
	Personal func(userID string) bool
	// Deferred is told of deferrals, for metrics. Defaults to nobody.
	Deferred func(category, rule string, n int)
	// Process names this process in what it has at work; defaults to a name of its own for each Agendas.
	Process string
	// Guarded is for a store whose store is elsewhere: every step fails with [ErrLost] in a partition that has lost its state,
	// and what ends by itself is kept in [Agendas.Ends] until the store knows of it.
	Guarded bool
	// Full tells that Redis has hardly any memory left: then [Agendas.Accept] takes nothing more, with [ErrFull], so that what
	// waits has room to be delivered. Defaults to never.
	Full func() bool
	// Apart is for a process without metrics of its own, such as a producer: what it puts is counted by one that sweeps. In a
	// guarded store that is the store's business.
	Apart bool
	// Horizon is how close a slot must be to be granted for its own moment. Defaults to 10 ms.
	Horizon time.Duration
	// Lease is how long a delivery may take before it is given to somebody else. Defaults to 15 s.
	Lease time.Duration
	// Retention is how long an ended notification stays known. Defaults to 24 h.
	Retention time.Duration
	// Hold is how long a worker keeps a wake-up in place instead of sending it back to the queue, whose times are whole
	// seconds. It must be longer than that second and the lead with which the queue wakes. Defaults to 1.5 s.
	Hold time.Duration
	// Grace is how long after its moment the sweeper misses a wake-up. Defaults to 1 s.
	Grace time.Duration
	// Presence is how long a process that was not heard of counts as alive. Defaults to 3 s.
	Presence time.Duration
	// Truce is how long leases that ended are left to their holders after half of that time in which nobody could sweep: they
	// could not settle either. Defaults to 5 s.
	Truce time.Duration
	// MaxCrashes is how many leases of a notification may end before it is given up. Defaults to 3.
	MaxCrashes int
}

func (c Config) withDefaults() Config {
	if c.Full == nil {
		c.Full = func() bool { return false }
	}
	c.Horizon = cmp.Or(c.Horizon, 10*time.Millisecond)
	c.Lease = cmp.Or(c.Lease, 15*time.Second)
	c.Retention = cmp.Or(c.Retention, 24*time.Hour)
	c.Hold = cmp.Or(c.Hold, 1500*time.Millisecond)
	c.Grace = cmp.Or(c.Grace, time.Second)
	c.Presence = cmp.Or(c.Presence, 3*time.Second)
	c.Process = cmp.Or(c.Process, rand.Text()[:12])
	if c.Categories == nil {
		c.Categories = func() []string { return nil }
	}
	if c.Personal == nil {
		c.Personal = func(string) bool { return false }
	}
	if c.Deferred == nil {
		c.Deferred = func(string, string, int) {}
	}
	c.Truce = cmp.Or(c.Truce, 5*time.Second)
	c.MaxCrashes = cmp.Or(c.MaxCrashes, 3)
	return c
}

// Validate reports every setting that can't work.
func (c Config) Validate() error {
	c = c.withDefaults()
	var faults []error
	if c.Partitions < 1 || c.Partitions > 1024 {
		faults = append(faults, fmt.Errorf("partitions must be between 1 and 1024, is %d", c.Partitions))
	}
	if c.Settings == nil {
		faults = append(faults, errors.New("settings of the categories are missing"))
	}
	if c.Horizon >= c.Lease {
		faults = append(faults, fmt.Errorf("the lease (%s) must be longer than the horizon (%s)", c.Lease, c.Horizon))
	}
	if c.Hold < time.Second+queue.Lead {
		faults = append(faults, fmt.Errorf("wake-ups must be held for at least %s, not %s", time.Second+queue.Lead, c.Hold))
	}
	return errors.Join(faults...)
}

// Agendas is the agendas of a deployment. It is safe for concurrent use by any number of processes.
type Agendas struct {
	client     redis.UniversalClient
	cfg        Config
	partitions []string   // prefix of each partition's keys
	locks      [][]string // what a script of a partition names as its keys, see dispatch.PartitionKeys

	accept, take, settle, end, extend, cancel, view, sweep, wake, restore, standing, awake *script.Script

	lease, horizon, retention string // as the scripts take them

	ends []*batch.Batcher[endRequest, endResult] // by partition
}

// New makes a Agendas.
func New(client redis.UniversalClient, cfg Config) (*Agendas, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("set up the agendas: %w", err)
	}
	if cfg.Direct == nil {
		cfg.Direct = client
	}
	s := &Agendas{
		client: client, cfg: cfg,
		lease: micros(cfg.Lease), horizon: micros(cfg.Horizon), retention: strconv.FormatInt(cfg.Retention.Milliseconds(), 10),
	}
	for partition := range cfg.Partitions {
		s.partitions = append(s.partitions, PartitionPrefix(partition))
		s.locks = append(s.locks, dispatch.PartitionKeys(PartitionPrefix(partition)))
		s.ends = append(s.ends, batch.New(endBatch, func(ctx context.Context, deliveries []endRequest) ([]endResult, error) {
			return s.endAll(ctx, partition, deliveries)
		}))
	}
	for name, kept := range s.scripts() {
		source, err := s.sourceOf(name)
		if err != nil {
			return nil, fmt.Errorf("load the Lua script %s: %w", name, err)
		}
		*kept = script.NewWhenFull(source)
		if name == "accept" || name == "take" || name == "restore" { // they take something on
			*kept = script.New(source)
		}
	}
	return s, nil
}

// scripts lists where each script is kept, by its file's name.
func (s *Agendas) scripts() map[string]**script.Script {
	return map[string]**script.Script{
		"accept": &s.accept, "take": &s.take, "settle": &s.settle, "end": &s.end, "extend": &s.extend, "cancel": &s.cancel,
		"view": &s.view, "sweep": &s.sweep, "wake": &s.wake, "restore": &s.restore, "standing": &s.standing, "awake": &s.awake,
	}
}

// scriptLimit is how many entries one script ends, moves or looks at, so that it does not block Redis: for what is left it
// has to be asked again.
const scriptLimit = 100

// guard stands before the scripts of a guarded store, so that none works on a partition that has lost its state.
const guard = `local GUARDED, EPOCH = true, redis.call('GET', KEYS[1] .. 'epoch')
if not EPOCH then return redis.error_reply('NOEPOCH the partition has lost its state') end
`

// here names, in a script, the history of the data on the server that runs it: a replica that is promoted and a server that is
// started again begin another. It is empty on an engine that does not tell: then there is nothing to compare.
const here = `local function here()
  local info = redis.pcall('INFO', 'replication')
  return type(info) == 'string' and string.match(info, 'master_replid:(%x+)') or ''
end
`

// guardHere stands instead before those that give out, or look after what waits: they also see whether the partition was built
// where they run. A replica that was promoted may lack the latest admissions, and would grant their slots again. So the partition
// forgets its epoch there, and holds until it is rebuilt. What an earlier version has built is taken as it is found.
const guardHere = here + `local GUARDED = true
local EPOCH
do
  local known = redis.call('MGET', KEYS[1] .. 'epoch', KEYS[1] .. 'built')
  EPOCH = known[1]
  local found = EPOCH and here() or ''
  if found ~= '' and not known[2] then
    redis.call('SET', KEYS[1] .. 'built', found)
  elseif found ~= '' and known[2] ~= found then
    redis.call('DEL', KEYS[1] .. 'epoch')
    EPOCH = false
  end
end
if not EPOCH then return redis.error_reply('NOEPOCH the partition has lost its state') end
`

// fence stands before those scripts of a store that is not guarded which take something in or give it out: once the store is
// elsewhere, nobody who does not know of it may.
const fence = `if redis.call('EXISTS', KEYS[1] .. 'epoch', KEYS[1] .. 'moved', KEYS[1] .. 'rebuild') > 0 then
  return redis.error_reply('MOVEDON the store of this deployment is elsewhere')
end
`

// guardOf gives what stands before a script. Those that also work in a rebuild look for themselves.
func guardOf(name string, guarded bool) string {
	switch {
	case !guarded && (name == "accept" || name == "take" || name == "sweep"):
		return "local GUARDED, EPOCH = false, ''\n" + fence
	case !guarded:
		return "local GUARDED, EPOCH = false, ''\n"
	case name == "accept" || name == "restore" || name == "awake":
		return "local GUARDED = true\n"
	case name == "standing":
		return ""
	case name == "take" || name == "sweep":
		return guardHere
	}
	return guard
}

// sourceOf puts a script together: after the functions that it needs, since each of them costs a little in every run.
func (s *Agendas) sourceOf(name string) (string, error) {
	before, parts := "", []string{name}
	switch name {
	case "end", "extend", "standing":
	case "take":
		before, parts = throttle.LogFunctions+moment+s.constants()+queue.WakeupFunctions+throttle.DecideFunctions, []string{"agenda", "limits", "reply", "grants", name}
	case "settle", "view", "restore":
		before, parts = throttle.LogFunctions+moment+s.constants()+queue.WakeupFunctions+throttle.Functions, []string{"agenda", "limits", name}
	default:
		before, parts = throttle.LogFunctions+moment+s.constants()+queue.WakeupFunctions, []string{"agenda", name}
	}
	var source strings.Builder
	source.WriteString(guardOf(name, s.cfg.Guarded))
	source.WriteString(before)
	for _, part := range parts {
		body, err := sources.ReadFile("lua/" + part + ".lua")
		if err != nil {
			return "", err
		}
		source.Write(body)
	}
	return source.String(), nil
}

// moment is when a script runs.
const moment = "local now = now_micros()\n"

// constants are those of this deployment's settings that most scripts need, in µs.
func (s *Agendas) constants() string {
	return fmt.Sprintf("local HOLD, LEAD = %d, %d\n", s.cfg.Hold.Microseconds(), queue.Lead.Microseconds())
}

// PartitionPrefix begins every key of a partition. Its hash tag is that of the partition's asynq queue, so that both share a slot.
func PartitionPrefix(partition int) string {
	return "pacer:{" + dispatch.PartitionName(partition) + "}:"
}

// Partitions is how many there are.
func (s *Agendas) Partitions() int { return s.cfg.Partitions }

// PartitionOf is the partition of a user.
func (s *Agendas) PartitionOf(userID string) int {
	return dispatch.PartitionOf(userID, s.cfg.Partitions)
}

func (s *Agendas) keys(partition int) []string { return s.locks[partition] }

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

func instant(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return strconv.FormatInt(t.UnixMicro(), 10)
}

// ruleName names the rule with that number (from 1) in a plan; empty for 0.
func ruleName(plan throttle.Plan, number int64) string {
	rules := plan.Rules
	if number < 1 || int(number) > len(rules) {
		return ""
	}
	return rules[number-1].String()
}

// run executes a script and returns its reply as a list.
func (s *Agendas) run(ctx context.Context, source *script.Script, partition int, args []any) ([]any, error) {
	return source.Run(ctx, s.client, s.keys(partition), args...).Slice()
}

// tasksPrefix begins the keys of a partition's asynq queue.
func tasksPrefix(partition int) string { return "asynq:{" + dispatch.PartitionName(partition) + "}:" }
