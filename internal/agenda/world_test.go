package agenda_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/agenda/maintenance"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// failer is what a test and a property have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// world is agendas on a Redis whose clock stands still until it is moved, and one worker on them, played step by step.
type world struct {
	t        failer
	test     testing.TB
	client   *redis.Client
	store    *agenda.Agendas
	settings map[string]agenda.Settings // by category; that of "" for all others
	// nights gives the closed intervals of a user; nil without any.
	nights func(user string) throttle.Closed
	now    time.Time
	made   int
	rounds int
	room   int
	// wake-ups that the worker has at work, and when it asks again.
	held map[string]heldWakeup
	// grants in flight.
	grants    []*dispatch.Grant
	pulls     int
	deferrals map[string]int // by category and rule, as told for metrics

	paused agenda.Paused
}

type heldWakeup struct {
	dispatch.Wakeup
	partition int
	at        time.Time
}

// start is when every world begins: a whole second, so that moments read well.
var start = time.Unix(1_800_000_000, 0)

const (
	lease      = 15 * time.Second
	partitions = 2
)

func newWorld(test testing.TB, t failer, client *redis.Client, settings agenda.Settings) *world {
	t.Helper()
	w := &world{
		t: t, test: test, client: client, now: start, room: 100, held: map[string]heldWakeup{},
		deferrals: map[string]int{},
	}
	if settings.MaxDefer == 0 {
		settings.MaxDefer = 24 * time.Hour
	}
	w.settings = map[string]agenda.Settings{"": settings}
	w.store = w.open("worker")
	w.setClock()
	return w
}

// open makes a store of another process in the world.
func (w *world) open(process string) *agenda.Agendas {
	w.t.Helper()
	store, err := agenda.New(w.client, agenda.Config{
		Partitions: partitions, Settings: w.settingsOf, Lease: lease, Process: process,
		Paused:   func() agenda.Paused { return w.paused },
		Deferred: func(category, rule string, n int) { w.deferrals[category+" "+rule] += n },
	})
	if err != nil {
		w.t.Fatalf("new store: %v", err)
	}
	if err := store.UseClockKey(); err != nil {
		w.t.Fatalf("use the clock key: %v", err)
	}
	return store
}

func (w *world) settingsOf(user, category string) agenda.Settings {
	s, ok := w.settings[category]
	if !ok {
		s = w.settings[""]
	}
	if w.nights != nil {
		s.Plan.Closed = w.nights(user)
	}
	return s
}

// forwardScript sets the clock, moves wake-ups whose second has come into the queue, as asynq's forwarder does, and
// tells of each partition how many are pending and when the first of the scheduled comes: one round trip, since worlds
// ask at every step.
//
// ARGV[1] now in µs; absent, nothing changes. Result: two numbers for each partition, the second -1 without any.
var forwardScript = redis.NewScript(`
if ARGV[1] then redis.call('SET', '` + agenda.ClockKey + `', ARGV[1]) end
local told = {}
for partition = 0, ` + strconv.Itoa(partitions-1) + ` do
  local q = 'asynq:{push-' .. partition .. '}:'
  if ARGV[1] then
    local now = math.floor(tonumber(ARGV[1]) / 1000000)
    for _, user in ipairs(redis.call('ZRANGEBYSCORE', q .. 'scheduled', '-inf', now)) do
      redis.call('ZREM', q .. 'scheduled', user)
      redis.call('HSET', q .. 't:' .. user, 'state', 'pending', 'pending_since', ARGV[1] .. '000')
      redis.call('LPUSH', q .. 'pending', user)
    end
  end
  told[#told + 1] = redis.call('LLEN', q .. 'pending')
  told[#told + 1] = tonumber(redis.call('ZRANGE', q .. 'scheduled', 0, 0, 'WITHSCORES')[2] or -1)
end
return told
`)

// queued is what the queue of a partition holds.
type queued struct {
	pending   int64
	scheduled time.Time // the first; zero without any
}

func (w *world) askQueues(now ...any) (all [partitions]queued) {
	w.t.Helper()
	told, err := forwardScript.Run(w.test.Context(), w.client, nil, now...).Int64Slice()
	if err != nil {
		w.t.Fatalf("look at the queues: %v", err)
	}
	for i := range all {
		all[i].pending = told[2*i]
		if second := told[2*i+1]; second >= 0 {
			all[i].scheduled = time.Unix(second, 0)
		}
	}
	return all
}

func (w *world) setClock() {
	w.t.Helper()
	if err := w.client.Set(w.test.Context(), agenda.ClockKey, w.now.UnixMicro(), 0).Err(); err != nil {
		w.t.Fatalf("set the clock: %v", err)
	}
}

// advance moves the clock, and what asynq's forwarder does meanwhile. Keys do not expire by it: TTLs are looked at by
// themselves.
func (w *world) advance(d time.Duration) [partitions]queued {
	w.t.Helper()
	w.now = w.now.Add(d)
	return w.askQueues(w.now.UnixMicro())
}

// accept accepts one notification and gives its id.
func (w *world) accept(e agenda.Entry) string {
	w.t.Helper()
	if e.ID == "" {
		w.made++
		e.ID = "n" + strconv.Itoa(w.made)
	}
	if e.UserID == "" {
		e.UserID = "ada"
	}
	if e.Category == "" {
		e.Category = "chat"
	}
	if e.Priority == 0 {
		e.Priority = notification.PriorityNormal
	}
	if _, err := w.store.Accept(w.test.Context(), w.store.PartitionOf(e.UserID), []agenda.Entry{e}); err != nil {
		w.t.Fatalf("accept %s: %v", e.ID, err)
	}
	return e.ID
}

func queueKey(partition int, part string) string {
	return fmt.Sprintf("asynq:{push-%d}:%s", partition, part)
}

// round has the worker ask once in a partition: for what is at work and due, and for further wake-ups.
func (w *world) round(partition, pull int) dispatch.TakeResult {
	w.t.Helper()
	w.rounds++
	r := dispatch.TakeRequest{Partition: partition, ID: "r" + strconv.Itoa(w.rounds), Capacity: w.room, Pull: pull}
	for _, user := range slices.Sorted(maps.Keys(w.held)) {
		if h := w.held[user]; h.partition == partition && !h.at.After(w.now) {
			r.Wakeups = append(r.Wakeups, h.Wakeup)
		}
	}
	return w.ask(r)
}

func (w *world) ask(r dispatch.TakeRequest) dispatch.TakeResult {
	w.t.Helper()
	reply, err := w.store.Take(w.test.Context(), r)
	if err != nil {
		w.t.Fatalf("serve: %v", err)
	}
	for i, wakeup := range r.Wakeups {
		delete(w.held, wakeup.UserID)
		if taken := reply.Results[i]; taken.Held {
			wakeup.Categories = taken.Categories
			w.held[wakeup.UserID] = heldWakeup{wakeup, r.Partition, w.now.Add(taken.After)}
		}
		w.grants = append(w.grants, reply.Results[i].Grants...)
	}
	for _, wakeup := range reply.Pulled {
		w.held[wakeup.UserID] = heldWakeup{wakeup, r.Partition, w.now}
		w.pulls++
	}
	return reply
}

// next is when something happens: a wake-up at work asks, one is pending, or one is scheduled.
func (w *world) next() (at time.Time, queues [partitions]queued, found bool) {
	w.t.Helper()
	consider := func(t time.Time) {
		if !found || t.Before(at) {
			at, found = t, true
		}
	}
	for _, h := range w.held {
		consider(h.at)
	}
	queues = w.askQueues()
	for _, q := range queues {
		if q.pending > 0 {
			consider(w.now)
		}
		if !q.scheduled.IsZero() {
			consider(q.scheduled)
		}
	}
	return at, queues, found
}

// asks reports whether the worker has something to ask for in a partition.
func (w *world) asks(partition int, q queued) bool {
	if q.pending > 0 {
		return true
	}
	for _, h := range w.held {
		if h.partition == partition && !h.at.After(w.now) {
			return true
		}
	}
	return false
}

// playUntil plays the worker until nothing is due until a moment, delivering everything that is granted, and gives the
// grants in their order.
func (w *world) playUntil(end time.Time) []*dispatch.Grant {
	w.t.Helper()
	var delivered []*dispatch.Grant
	for range 100_000 {
		at, queues, found := w.next()
		if !found || at.After(end) {
			return delivered
		}
		if at.After(w.now) {
			queues = w.advance(at.Sub(w.now))
		}
		for partition, q := range queues {
			if w.asks(partition, q) {
				w.round(partition, 32)
			}
		}
		for len(w.grants) > 0 {
			delivered = append(delivered, w.grants[0])
			w.settle(dispatch.Outcome{Disposition: dispatch.Delivered, Reason: "delivered"})
		}
	}
	w.t.Fatalf("it never comes to an end")
	return nil
}

// drain plays until nothing waits any more.
func (w *world) drain() []*dispatch.Grant {
	w.t.Helper()
	return w.playUntil(time.Unix(math.MaxInt32, 0))
}

// settle settles the oldest grant.
func (w *world) settle(o dispatch.Outcome) dispatch.Settlement {
	w.t.Helper()
	g := w.grants[0]
	w.grants = w.grants[1:]
	settlement, err := w.store.Settle(w.test.Context(), g, o)
	if err != nil {
		w.t.Fatalf("settle %s: %v", g.Notification.ID, err)
	}
	return settlement
}

// sweep sweeps every partition, as if somebody had swept a second ago.
func (w *world) sweep() dispatch.Repairs {
	w.t.Helper()
	for partition := range partitions {
		key := keyspace.Prefix(partition) + "sweep"
		if err := w.client.HSet(w.test.Context(), key, "last", w.now.Add(-time.Second).UnixMicro()).Err(); err != nil {
			w.t.Fatalf("set the last sweep: %v", err)
		}
	}
	return w.sweepAfterGap()
}

// sweepAfterGap sweeps every partition when nobody has for as long as it is.
func (w *world) sweepAfterGap() dispatch.Repairs {
	w.t.Helper()
	var all dispatch.Repairs
	for partition := range partitions {
		repairs, err := w.store.Sweep(w.test.Context(), partition)
		if err != nil {
			w.t.Fatalf("sweep: %v", err)
		}
		all.LeasesEnded += repairs.LeasesEnded
		all.Expired += repairs.Expired
		all.Woken += repairs.Woken
		all.More = all.More || repairs.More
	}
	return all
}

func (w *world) state(id string) *agenda.State {
	w.t.Helper()
	state, err := outlook.Of(w.store).Lookup(w.test.Context(), id)
	if err != nil {
		w.t.Fatalf("look %s up: %v", id, err)
	}
	return state
}

func (w *world) total() stats.Counts {
	w.t.Helper()
	all, err := outlook.Of(w.store).Stats(w.test.Context())
	if err != nil {
		w.t.Fatalf("stats: %v", err)
	}
	w.wantHistory(all.Totals)
	return all
}

// wantHistory checks that what happened in all hours adds up to the totals.
func (w *world) wantHistory(totals stats.Totals) {
	w.t.Helper()
	hours, err := outlook.Of(w.store).History(w.test.Context(), w.now.Add(-time.Hour), w.now.Add(time.Hour))
	if err != nil {
		w.t.Fatalf("history: %v", err)
	}
	var sum stats.Totals
	for _, h := range hours {
		sum.Accepted, sum.Delivered = sum.Accepted+h.Accepted, sum.Delivered+h.Delivered
		sum.Failed += h.Failed
		sum.Expired, sum.Cancelled = sum.Expired+h.Expired, sum.Cancelled+h.Cancelled
		sum.Replaced, sum.Deferrals = sum.Replaced+h.Replaced, sum.Deferrals+h.Deferred
	}
	totals.Pulls, totals.Attempts = 0, 0
	if sum != totals {
		w.t.Fatalf("the history adds up to %+v, the totals are %+v", sum, totals)
	}
}

// leftovers lists the keys that are neither counts nor records nor limiter logs.
func (w *world) leftovers() []string {
	w.t.Helper()
	keys, err := w.client.Keys(w.test.Context(), "*").Result()
	if err != nil {
		w.t.Fatalf("keys: %v", err)
	}
	return slices.DeleteFunc(keys, expectedKey)
}

// expectedKey reports whether a key is one of counts, records or the limiter, which stay.
func expectedKey(key string) bool {
	var partition int
	var rest string
	if _, err := fmt.Sscanf(key, "asynq:{push-%d}:%s", &partition, &rest); err == nil {
		return len(rest) > 8 && rest[:9] == "processed"
	}
	if _, err := fmt.Sscanf(key, "pacer:{push-%d}:%s", &partition, &rest); err != nil {
		return key == agenda.ClockKey
	}
	switch rest {
	case "c", "a", "sweep", "generation", "holders":
		return true
	case "e", "y", "o", "opens", "v", "wakeups":
		return false
	}
	if strings.HasPrefix(rest, "history:") {
		return true
	}
	return slices.Contains([]string{"n:", "l:", "u:", "f:", "b:", "h:", "ro", "ca"}, rest[:2])
}

// violations counts the pairs of admissions that break a rule.
func violations(grants []*dispatch.Grant, rules ...throttle.Rule) int {
	admitted := make([]time.Time, len(grants))
	for i, g := range grants {
		admitted[i] = g.AdmittedAt
	}
	return brokenBy(admitted, rules...)
}

// brokenBy counts the pairs of moments that break a rule.
func brokenBy(admitted []time.Time, rules ...throttle.Rule) int {
	times := make([]throttle.Micros, len(admitted))
	for i, at := range admitted {
		times[i] = throttle.MicrosOf(at)
	}
	slices.Sort(times)
	broken := 0
	for _, rule := range rules {
		for i := rule.Max; i < len(times); i++ {
			if times[i].Sub(times[i-rule.Max]) < rule.Per {
				broken++
			}
		}
	}
	return broken
}

// beginRebuild stops partitions and empties them.
func beginRebuild(ctx context.Context, store *agenda.Agendas, partitions []int, token string) error {
	m := maintenance.Of(store)
	if _, err := m.Stop(ctx, partitions, token, ""); err != nil {
		return err
	}
	kept := map[int]maintenance.Kept{}
	for _, partition := range partitions {
		kept[partition] = maintenance.Kept{Ends: true}
	}
	return m.Empty(ctx, kept, token)
}

// built is how a partition was built that is numbered and on a server.
func built(number int64, identity string) maintenance.Built {
	return maintenance.Built{Epoch: keyspace.NewEpoch(number, identity)}
}
