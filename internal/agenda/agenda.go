// Package agenda keeps, on Redis, everything that waits for each user: a backlog per category, ordered by priority and
// arrival, what is due later, what is in flight, the limiter's windows, and one wake-up. Each step is one Lua script
// that reads and changes all of these together. Entries carry an opaque payload, so another store can keep the
// notifications themselves.
//
// While anything of a user waits, the user has a wake-up at or before the earliest moment at which something may go. A
// wake-up is a task of asynq's queue (see package queue). The same scripts write it, so there is no moment between
// changing an agenda and changing its wake-up.
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
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/agenda/player"
	"github.com/pacer-notify/pacer/internal/batch"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/script"
	"github.com/pacer-notify/pacer/internal/throttle"
)

//go:embed lua
var sources embed.FS

// spelled are the sources by the name of their file, with the letters of package keyspace put in, which takes a while.
var spelled = sync.OnceValues(func() (map[string]string, error) {
	files, err := fs.Glob(sources, "lua/*.lua")
	spelled := make(map[string]string, len(files))
	for _, file := range files {
		source, failed := sources.ReadFile(file)
		err = errors.Join(err, failed)
		spelled[strings.TrimSuffix(path.Base(file), ".lua")] = keyspace.Spell(string(source))
	}
	return spelled, err
})

// Settings are what the policy, the user's own limits and the operators say about one category of a user.
type Settings = player.Settings

// Paused is where nothing goes until somebody resumes it.
type Paused struct {
	Channels   []string
	Partitions []int
}

// CrowdSize is how many may wait in a category of a user, without a ladder, before somebody has to hear of it.
const CrowdSize = 1000

// Config is what the agendas of a deployment need to know.
type Config struct {
	// Direct is the client behind the one that [New] is given, for requests to each server of a cluster by itself.
	// Defaults to the given one.
	Direct redis.UniversalClient
	// Partitions is how many partitions the deployment has.
	Partitions int
	// Settings returns the current settings of a user's category; it must know every name.
	Settings func(userID, category string) Settings
	// Categories lists the categories that have the same settings for every user who has no limits of their own. The
	// round that pulls a wake-up off the queue grants these at once. Defaults to none.
	Categories func() []string
	// Personal reports whether a user has limits of their own. Defaults to nobody.
	Personal func(userID string) bool
	// Deferred is called with the deferrals, for metrics. The rule is one of the policy, "own limit" or "own
	// min_gap" for any that is a user's own, or quiet_hours. Defaults to nothing.
	Deferred func(category, rule string, n int)
	// Shadowed is called with each grant that a shadow rule would have had wait, for metrics. Defaults to nothing.
	Shadowed func(category, rule string)
	// Changed says that the settings are not in force yet: whoever looks ahead has a worker come at once, as it would
	// after the change.
	Changed bool
	// Paused is what operators paused, beside categories. Defaults to nothing.
	Paused func() Paused
	// Overflowed is called with what a rung of an overflow ladder did to a notification. Where there is no ladder, and
	// a worker finds that more than [CrowdSize] wait, the action is "unbounded". Defaults to nothing.
	Overflowed func(category, action string)
	// Pending is called when a partition in which no wake-up was pending got some by an accept. Defaults to nothing.
	Pending func(partition int)
	// Process names this process in the wake-ups that it holds. Defaults to a random name.
	Process string
	// Guarded says that another store keeps the notifications. Then every step fails with [ErrLost] in a partition that
	// has lost its state, and what ends by itself is kept for [Agendas.EachEnds] until that store knows of it.
	Guarded bool
	// Full tells that Redis has hardly any memory left. Then [Agendas.Accept] accepts nothing and returns [ErrFull], so
	// that there is room to deliver what waits. Defaults to never.
	Full func() bool
	// Apart is for a process without metrics, such as a producer: a process that sweeps counts what it accepts. When
	// another store keeps the notifications, that store counts them.
	Apart bool
	// Lease is how long a delivery may take before the notification may be granted again. Defaults to 15 s.
	Lease time.Duration
	// Retention is how long an ended notification stays known. Defaults to 24 h.
	Retention time.Duration
	// Hold is how near the moment of a wake-up must be for a worker to hold it instead of returning it to the queue,
	// whose times are whole seconds. It must be longer than a second and the queue's lead together. Defaults to 1.5 s.
	Hold time.Duration
	// Grace is how long after its moment a wake-up counts as missing. Defaults to 1 s.
	Grace time.Duration
	// Presence is how long a process that neither sweeps nor pulls counts as alive. Defaults to 3 s.
	Presence time.Duration
	// Truce is how long ended leases are left to their holders after a gap between sweeps of more than half of it: in
	// the gap nobody could settle either. Defaults to 5 s.
	Truce time.Duration
	// MaxCrashes is how many leases of a notification may end before it fails, unless the store is guarded: then the
	// guard counts. Defaults to 3.
	MaxCrashes int
}

func (c Config) withDefaults() Config {
	if c.Full == nil {
		c.Full = func() bool { return false }
	}
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
	if c.Paused == nil {
		c.Paused = func() Paused { return Paused{} }
	}
	if c.Shadowed == nil {
		c.Shadowed = func(string, string) {}
	}
	if c.Overflowed == nil {
		c.Overflowed = func(string, string) {}
	}
	if c.Pending == nil {
		c.Pending = func(int) {}
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
	if c.Lease <= throttle.Horizon {
		faults = append(faults, fmt.Errorf("the lease (%s) must be longer than the horizon (%s)", c.Lease, throttle.Horizon))
	}
	if c.Hold < time.Second+queue.Lead {
		faults = append(faults,
			fmt.Errorf("wake-ups must be held for at least %s, not %s", time.Second+queue.Lead, c.Hold))
	}
	return errors.Join(faults...)
}

// Agendas are the agendas of a deployment. They are safe for concurrent use by any number of processes.
type Agendas struct {
	*keyspace.Space
	// Events are those that the scripts write.
	Events *Events

	cfg Config

	accept, take, settle, end, extend, part, cancel, change, looks, readon, superseded *script.Script
	sweep, due, wake, hurry, restore, awake, events                                    *script.Script

	lease, retention string // as arguments of the scripts

	ends []*batch.Batcher[endRequest, endResult] // by partition

	rounds []sync.RWMutex // by partition: held for reading while a round is made

	looking []atomic.Bool // by partition, on a cluster: whether Due is asking it

	removed removed
}

// New makes the agendas of a deployment.
func New(client redis.UniversalClient, cfg Config) (*Agendas, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("set up the agendas: %w", err)
	}
	if cfg.Direct == nil {
		cfg.Direct = client
	}
	a := &Agendas{
		Space: keyspace.New(client, cfg.Direct, cfg.Partitions), cfg: cfg,
		rounds: make([]sync.RWMutex, cfg.Partitions), looking: make([]atomic.Bool, cfg.Partitions),
		lease:     micros(cfg.Lease),
		retention: strconv.FormatInt(cfg.Retention.Milliseconds(), 10),
	}
	for partition := range cfg.Partitions {
		endAll := func(ctx context.Context, deliveries []endRequest) ([]endResult, error) {
			return a.endAll(ctx, partition, deliveries)
		}
		a.ends = append(a.ends, batch.New(endBatch, endAll))
	}
	for _, kept := range a.scripts() {
		*kept = &script.Script{}
	}
	a.Events = &Events{agendas: a}
	return a, a.Events.Want(nil)
}

// load puts the scripts together, with the letters of the events that they write.
func (a *Agendas) load(letters string) error {
	for name, kept := range a.scripts() {
		source, err := a.cfg.sourceOf(name, letters, a.OneServer)
		if err != nil {
			return fmt.Errorf("load the Lua script %s: %w", name, err)
		}
		if name == "accept" || name == "take" || name == "restore" { // these take something in
			(*kept).Become(script.New(source))
		} else {
			(*kept).Become(script.NewWhenFull(source))
		}
	}
	return nil
}

// scripts lists the field of each script, by the name of its file.
func (a *Agendas) scripts() map[string]**script.Script {
	return map[string]**script.Script{
		"accept": &a.accept, "take": &a.take, "settle": &a.settle, "end": &a.end, "extend": &a.extend,
		"part": &a.part, "cancel": &a.cancel, "change": &a.change, "look": &a.looks, "readon": &a.readon,
		"sweep": &a.sweep, "due": &a.due, "wake": &a.wake, "restore": &a.restore, "hurry": &a.hurry,
		"awake": &a.awake, "superseded": &a.superseded, "events": &a.events,
	}
}

// scriptLimit is how many notifications one script ends, moves or looks at, so that it does not block Redis. What is
// left takes another run.
const scriptLimit = 100

// requireEpoch stands before the scripts of a guarded store, so that none works on a partition that has lost its state.
const requireEpoch = `local GUARDED, EPOCH = true, redis.call('GET', KEYS[1] .. 'epoch')
if not EPOCH then return redis.error_reply('NOEPOCH the partition has lost its state') end
`

// requireEpochHere stands instead before those that grant, or look after what waits. They also check that the partition
// was built on the server where they run. A promoted replica may lack the latest admissions, and would grant their
// slots again. So the partition forgets its epoch there, and grants nothing until it is rebuilt. One from
// which Redis has evicted where it was built is taken as it is found.
const requireEpochHere = script.Here + `local GUARDED = true
local EPOCH
do
  local known = redis.call('MGET', KEYS[1] .. 'epoch', KEYS[1] .. 'built')
  EPOCH = known[1]
  local found = EPOCH and here() or ''
  if found ~= '' and not known[2] then
    redis.call('SET', KEYS[1] .. 'built', found)
  elseif found ~= '' and known[2] ~= found then
    redis.call('RENAME', KEYS[1] .. 'epoch', KEYS[1] .. 'counted')
    EPOCH = false
  end
end
if not EPOCH then return redis.error_reply('NOEPOCH the partition has lost its state') end
`

// refuseMoved stands before those scripts of a store that is not guarded which accept, grant or sweep. Once the
// notifications are in another store, a process that does not know of it must do none of these.
const refuseMoved = `if redis.call('EXISTS', KEYS[1] .. 'epoch', KEYS[1] .. 'mark', KEYS[1] .. 'rebuild') > 0 then
  return redis.error_reply('MOVEDON the store of this deployment is elsewhere')
end
`

// checksBefore returns the checks that stand before a script. Scripts that also run in a rebuild check by themselves.
func checksBefore(name string, guarded bool) string {
	switch {
	case !guarded && (name == "accept" || name == "take" || name == "sweep"):
		return "local GUARDED, EPOCH = false, ''\n" + refuseMoved
	case !guarded:
		return "local GUARDED, EPOCH = false, ''\n"
	case name == "accept":
		return "local GUARDED = true\n" + requireRebuildOf
	case name == "restore":
		return "local GUARDED = true\n" + requireRebuild
	case name == "awake", name == "events":
		return "local GUARDED = true\n"
	case name == "due":
		return script.Here + "local GUARDED = true\n"
	case name == "take" || name == "sweep":
		return requireEpochHere
	}
	return requireEpoch
}

// sourceOf puts a script together. Only the functions that it needs stand before it, since each costs a little in every
// run.
func (c Config) sourceOf(name, events string, oneServer bool) (string, error) {
	before := throttle.LogFunctions + moment + c.constants(oneServer) + queue.WakeupFunctions
	parts := []string{"agenda", "notification", "wakeups", name}
	digests := []string{"agenda", "notification", "wakeups", "digest"}
	switch name {
	case "end", "extend", "events":
		before, parts = "", []string{name}
	case "due":
		before, parts = throttle.LogFunctions, []string{"truce", name}
	case "sweep":
		parts = append(digests, "truce", name)
	case "accept":
		parts = append(digests, "overflow", "overflow_join", name)
	case "take":
		before += throttle.DecideFunctions
		parts = append(digests, "limits", "overflow", "reply", "company", "grants", "overflow_wait", name)
	case "look", "readon":
		before += throttle.PastFunctions
		parts = []string{"agenda", "notification", "limits", "ahead", name}
	case "cancel", "part", "change":
		parts = append(digests, name)
	case "settle", "restore":
		before += throttle.Functions
		parts = append(digests, "limits", name)
	}
	files, err := spelled()
	var source strings.Builder
	source.WriteString(checksBefore(name, c.Guarded))
	fmt.Fprintf(&source, "local EVENTS = '%s'\n", events)
	source.WriteString(before)
	for _, part := range parts {
		source.WriteString(files[part])
	}
	return source.String(), err
}

// moment is the time at which a script runs.
const moment = "local now = now_micros()\n"

// constants are the settings that most scripts need, durations in µs, and the number of the rule that stands for
// waiting for company.
func (c Config) constants(oneServer bool) string {
	return fmt.Sprintf("local HOLD, LEAD, TELL, DIGEST, CROWD = %d, %d, %t, %d, %d\n", c.Hold.Microseconds(),
		queue.Lead.Microseconds(), oneServer, throttle.DigestRule+1, CrowdSize)
}

// SettingsOf returns what is in force for a user's category.
func (a *Agendas) SettingsOf(userID, category string) Settings {
	return a.cfg.Settings(userID, category)
}

// Config returns what the agendas were made with.
func (a *Agendas) Config() Config { return a.cfg }

// Read runs one of the scripts that read what waits for a user: look or readon.
func (a *Agendas) Read(ctx context.Context, name string, partition int, args []any) ([]any, error) {
	source := a.looks
	if name == "readon" {
		source = a.readon
	}
	return a.Run(ctx, source, partition, args)
}

// Lease returns how long a delivery may take before the notification may be granted again.
func (a *Agendas) Lease() time.Duration { return a.cfg.Lease }

// Retention returns how long an ended notification stays known.
func (a *Agendas) Retention() time.Duration { return a.cfg.Retention }

// micros writes a duration for a script, in µs.
func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

// digits are arguments of almost every script. A text becomes an argument at the price of an object, a constant for
// nothing.
var digits = [...]any{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}

// number writes a whole number for a script.
func number(n int64) any {
	if n >= 0 && n < int64(len(digits)) {
		return digits[n]
	}
	return strconv.FormatInt(n, 10)
}

// instant writes a moment for a script, in µs since the epoch; 0 for the zero time.
func instant(t time.Time) any {
	if t.IsZero() {
		return number(0)
	}
	return number(t.UnixMicro())
}

// Flag writes a truth value for a script.
func Flag(b bool) any {
	if b {
		return number(1)
	}
	return number(0)
}
