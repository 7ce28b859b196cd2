package mailbox_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/mailbox"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// failer is what a test and a property have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// world is mailboxes on a Redis whose clock stands still until it is moved, and a queue that keeps ticks as asynq would.
type world struct {
	t      failer
	test   testing.TB
	client *redis.Client
	store  *mailbox.Store
	terms  mailbox.Terms
	now    time.Time
	asked  int
	made   int
	// ticks of the queue, each with the moment at which it comes.
	ticks map[dispatch.Tick]time.Time
	// grants in flight.
	grants []*dispatch.Grant
	pulls  int // questions of ticks that came off the queue
}

// start is when every world begins: a whole second, so that moments read well.
var start = time.Unix(1_800_000_000, 0)

const (
	lease = 15 * time.Second
	grace = 5 * time.Second
)

func newWorld(test testing.TB, t failer, client *redis.Client, terms mailbox.Terms) *world {
	t.Helper()
	w := &world{t: t, test: test, client: client, terms: terms, now: start, ticks: map[dispatch.Tick]time.Time{}}
	if w.terms.MaxDefer == 0 {
		w.terms.MaxDefer = 24 * time.Hour
	}
	store, err := mailbox.New(client, mailbox.Config{Lanes: 2, Terms: func(string, string) mailbox.Terms { return w.terms }, Lease: lease, Grace: grace})
	if err != nil {
		t.Fatalf("new store: %v", err)
	}
	if err := store.UseClockKey(); err != nil {
		t.Fatalf("use the clock key: %v", err)
	}
	w.store = store
	w.setClock()
	return w
}

func (w *world) setClock() {
	w.t.Helper()
	if err := w.client.Set(w.test.Context(), mailbox.ClockKey, w.now.UnixMicro(), 0).Err(); err != nil {
		w.t.Fatalf("set the clock: %v", err)
	}
}

// advance moves the clock. Keys do not expire by it: the tests look at what scripts do, TTLs are looked at by themselves.
func (w *world) advance(d time.Duration) {
	w.t.Helper()
	w.now = w.now.Add(d)
	w.setClock()
}

// put accepts one notification and gives its id.
func (w *world) put(e mailbox.Entry) string {
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
	lane := w.store.LaneOf(e.UserID)
	placed, err := w.store.Put(w.test.Context(), lane, []mailbox.Entry{e})
	if err != nil {
		w.t.Fatalf("put %s: %v", e.ID, err)
	}
	if !placed[0].Known {
		w.ticks[dispatch.Tick{ID: e.ID, Mailbox: dispatch.MailboxOf(e.UserID, e.Category, 2)}] = w.now.Add(placed[0].DueIn)
	}
	return e.ID
}

// ask asks for a tick and keeps what follows from the answer.
func (w *world) ask(tick dispatch.Tick, pulled bool) mailbox.Answer {
	w.t.Helper()
	w.asked++
	return w.askAs(tick, pulled, "q"+strconv.Itoa(w.asked))
}

func (w *world) askAs(tick dispatch.Tick, pulled bool, nonce string) mailbox.Answer {
	w.t.Helper()
	answer, err := w.store.Take(w.test.Context(), dispatch.Question{Tick: tick, Nonce: nonce, Pulled: pulled})
	if err != nil {
		w.t.Fatalf("take for %s: %v", tick.ID, err)
	}
	if pulled {
		w.pulls++
	}
	delete(w.ticks, tick)
	if answer.Wait != nil {
		w.ticks[tick] = w.now.Add(answer.Wait.For)
	}
	if answer.Extra != nil {
		w.ticks[answer.Extra.Tick] = w.now.Add(answer.Extra.After)
	}
	if g := answer.Granted; g != nil {
		w.grants = append(w.grants, &dispatch.Grant{
			Mailbox: tick.Mailbox, Notification: &notification.Notification{ID: g.ID}, Generation: g.Generation,
			Attempt: g.Attempt, Failures: g.Failure, AdmittedAt: g.At, Tick: tick,
		})
	}
	return answer
}

// next gives the tick that comes first; of several the one with the smallest id.
func (w *world) next() (dispatch.Tick, time.Time, bool) {
	var first dispatch.Tick
	found := false
	for tick, at := range w.ticks {
		if !found || at.Before(w.ticks[first]) || at.Equal(w.ticks[first]) && tick.ID < first.ID {
			first, found = tick, true
		}
	}
	return first, w.ticks[first], found
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
	if settlement.RetryIn > 0 {
		w.ticks[g.Tick] = w.now.Add(settlement.RetryIn)
	}
	return settlement
}

// drain plays the queue until no tick is left, delivering everything, and gives the grants in their order.
func (w *world) drain() []*dispatch.Grant {
	w.t.Helper()
	var delivered []*dispatch.Grant
	for range 100_000 {
		tick, at, found := w.next()
		if !found {
			return delivered
		}
		if at.After(w.now) {
			w.advance(at.Sub(w.now))
		}
		w.ask(tick, true)
		for len(w.grants) > 0 {
			delivered = append(delivered, w.grants[0])
			w.settle(dispatch.Outcome{Fate: dispatch.Delivered, Reason: "delivered"})
		}
	}
	w.t.Fatalf("the queue never drains")
	return nil
}

// drainEarly plays the queue as drain does, but as asynq would: each tick comes 1.3 s before its slot, is held, and asks
// again at its slot.
func (w *world) drainEarly() []*dispatch.Grant {
	w.t.Helper()
	const early, hold = 1300 * time.Millisecond, 1500 * time.Millisecond
	held := map[dispatch.Tick]bool{}
	comes := func(tick dispatch.Tick) time.Time {
		if held[tick] {
			return w.ticks[tick]
		}
		return w.ticks[tick].Add(-early)
	}
	var delivered []*dispatch.Grant
	for len(w.ticks) > 0 {
		var next *dispatch.Tick
		for tick := range w.ticks {
			if next == nil || comes(tick).Before(comes(*next)) || comes(tick).Equal(comes(*next)) && tick.ID < next.ID {
				next = &tick
			}
		}
		if at := comes(*next); at.After(w.now) {
			w.advance(at.Sub(w.now))
		}
		answer := w.ask(*next, !held[*next])
		held[*next] = answer.Wait != nil && answer.Wait.For <= hold
		for len(w.grants) > 0 {
			delivered = append(delivered, w.grants[0])
			w.settle(dispatch.Outcome{Fate: dispatch.Delivered, Reason: "delivered"})
		}
	}
	return delivered
}

// sweep sweeps every lane and enqueues what comes of it, as if somebody had swept a second ago.
func (w *world) sweep() dispatch.Repairs {
	w.t.Helper()
	for lane := range w.store.Lanes() {
		key := mailbox.LanePrefix(lane) + "sweep"
		if err := w.client.HSet(w.test.Context(), key, "last", w.now.Add(-time.Second).UnixMicro()).Err(); err != nil {
			w.t.Fatalf("set the last sweep: %v", err)
		}
	}
	return w.sweepAfterGap()
}

// sweepAfterGap sweeps every lane when nobody has for as long as it is.
func (w *world) sweepAfterGap() dispatch.Repairs {
	w.t.Helper()
	var all dispatch.Repairs
	for lane := range w.store.Lanes() {
		repairs, err := w.store.Sweep(w.test.Context(), lane)
		if err != nil {
			w.t.Fatalf("sweep: %v", err)
		}
		for _, tick := range repairs.Ticks {
			w.ticks[tick] = w.now
		}
		all.LeasesEnded += repairs.LeasesEnded
		all.Expired += repairs.Expired
		all.Woken += repairs.Woken
	}
	return all
}

func (w *world) state(id string) *mailbox.State {
	w.t.Helper()
	state, err := w.store.Lookup(w.test.Context(), id)
	if err != nil {
		w.t.Fatalf("look %s up: %v", id, err)
	}
	return state
}

func (w *world) total() mailbox.LaneStats {
	w.t.Helper()
	lanes, err := w.store.Stats(w.test.Context())
	if err != nil {
		w.t.Fatalf("stats: %v", err)
	}
	return mailbox.Sum(lanes)
}

// leftovers lists the keys that are neither counts nor records nor limiter logs.
func (w *world) leftovers() []string {
	w.t.Helper()
	keys, err := w.client.Keys(w.test.Context(), "pacer:*").Result()
	if err != nil {
		w.t.Fatalf("keys: %v", err)
	}
	return slices.DeleteFunc(keys, func(key string) bool {
		var lane int
		var rest string
		if _, err := fmt.Sscanf(key, "pacer:{push-%d}:%s", &lane, &rest); err != nil {
			return false
		}
		switch rest[0] {
		case 'n', 'l', 'u', 'f', 'b', 'h':
			return true
		}
		return rest == "c" || rest == "a" || rest == "sweep"
	})
}

// violations counts the pairs of admissions that break a rule.
func violations(grants []*dispatch.Grant, rules ...throttle.Rule) int {
	times := make([]throttle.Micros, len(grants))
	for i, g := range grants {
		times[i] = throttle.MicrosOf(g.AdmittedAt)
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
