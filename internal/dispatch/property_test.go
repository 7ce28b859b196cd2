package dispatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// scene is what one wake-up gets when it is asked for, and what becomes of its deliveries.
type scene struct {
	next   string // held, back, or used up
	after  time.Duration
	rule   string
	grants int
	in     time.Duration

	claims   string // claimed, refused, error, panic
	sends    string // delivered, transient, panic, hangs
	provider time.Duration
	settles  string // settled, stale, hangs, panic, after some failures
	failures int
}

// mishap is what happens to one call of Serve.
type mishap struct {
	latency time.Duration
	fault   string // none, before, after, panic, lost
}

func duration(t *rapid.T, name string, most time.Duration) time.Duration {
	return rapid.SampledFrom([]time.Duration{0, 1, most / 1000, most / 10, most / 2, most}).Draw(t, name)
}

var scenes = rapid.Custom(func(t *rapid.T) scene {
	return scene{
		next:   rapid.SampledFrom([]string{"held", "held", "back", "used"}).Draw(t, "next"),
		after:  duration(t, "after", 2*time.Second) - duration(t, "less", 10*time.Millisecond),
		rule:   rapid.SampledFrom([]string{"", "1 per 1s"}).Draw(t, "rule"),
		grants: rapid.SampledFrom([]int{0, 0, 1, 1, 2, 5, 20}).Draw(t, "grants"),
		in:     duration(t, "in", 10*time.Millisecond),
		claims: rapid.SampledFrom([]string{
			"claimed", "claimed", "claimed", "refused", "error", "panic",
		}).Draw(t, "claims"),
		sends:    rapid.SampledFrom([]string{"delivered", "delivered", "transient", "panic", "hangs"}).Draw(t, "sends"),
		provider: duration(t, "provider", 3*time.Second),
		settles:  rapid.SampledFrom([]string{"settled", "settled", "stale", "hangs", "panic"}).Draw(t, "settles"),
		failures: rapid.IntRange(0, 3).Draw(t, "failures"),
	}
})

var mishaps = rapid.Custom(func(t *rapid.T) mishap {
	return mishap{
		latency: duration(t, "latency", 200*time.Millisecond),
		fault:   rapid.SampledFrom([]string{"", "", "", "before", "after", "panic", "lost"}).Draw(t, "fault"),
	}
})

// inHand is a wake-up that the dispatcher should have in its hand.
type inHand struct {
	from time.Time // it may be asked for
}

// play is a store whose wake-ups follow scripts, and what has been seen of the dispatcher.
type play struct {
	*store
	dispatcher *dispatch.Dispatcher
	inside     gauge
	calm       bool

	mutex   sync.Mutex
	mishaps []mishap
	scenes  map[*dispatch.Grant]scene
	byID    map[string]*dispatch.Grant
	claimed map[*dispatch.Grant]bool
	settled map[*dispatch.Grant][]dispatch.Disposition
	sent    map[string]int
	given   map[*dispatch.Grant]bool // in a result that arrived
	hand    map[int64]inHand         // by generation
	asking  map[string]bool          // rounds that were asked before
	faults  []string
	number  int
}

func (p *play) fault(format string, args ...any) {
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// Take implements dispatch.Store.
func (p *play) Take(ctx context.Context, r dispatch.TakeRequest) (dispatch.TakeResult, error) {
	var next mishap
	p.mutex.Lock()
	if len(p.mishaps) > 0 {
		next, p.mishaps = p.mishaps[0], p.mishaps[1:]
	}
	p.check(r)
	p.mutex.Unlock()
	pass(next.latency)
	switch next.fault {
	case "before":
		return dispatch.TakeResult{}, errAway
	case "panic":
		panic("a bad reply")
	case "lost":
		p.mutex.Lock()
		defer p.mutex.Unlock()
		for generation := range p.hand { // of all partitions: what of the others is asked for is not checked any more
			delete(p.hand, generation)
		}
		p.asking["lost"] = true
		return dispatch.TakeResult{}, dispatch.ErrLost
	}
	reply, err := p.store.Take(ctx, r)
	if next.fault == "after" {
		return dispatch.TakeResult{}, errAway
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.arrived(r, reply)
	return reply, err
}

// check looks what is wrong with a request.
func (p *play) check(r dispatch.TakeRequest) {
	if p.asking[r.ID] {
		return // again
	}
	p.asking[r.ID] = true
	if len(r.Wakeups) > r.Capacity || len(r.Wakeups) > 32 || r.Pull > 32 || len(r.Release) > 100 {
		p.fault("a round asks for %d, pulls %d and releases %d, with %d tokens", len(r.Wakeups), r.Pull, len(r.Release),
			r.Capacity)
	}
	for _, w := range slices.Concat(r.Wakeups, r.Release) {
		h, ok := p.hand[w.Generation]
		if !ok && !p.asking["lost"] {
			p.fault("wake-up %d is asked for or released, which is not in hand", w.Generation)
		}
		delete(p.hand, w.Generation)
		if early := time.Until(h.from); early > 0 && len(r.Release) == 0 {
			p.fault("wake-up %d is asked for %s too early", w.Generation, early)
		}
		if late := time.Since(h.from); p.calm && ok && late != 0 && len(r.Release) == 0 {
			p.fault("wake-up %d is asked for %s late, though nobody is busy", w.Generation, late)
		}
	}
}

// arrived notes what a result brings.
func (p *play) arrived(r dispatch.TakeRequest, reply dispatch.TakeResult) {
	now := time.Now()
	for i, taken := range reply.Results {
		p.took(r.Wakeups[i].Generation, taken, now)
	}
	for _, w := range reply.Served {
		p.took(w.Generation, w.WakeupResult, now)
	}
	for _, w := range reply.Pulled {
		p.hand[w.Generation] = inHand{now}
	}
}

// took notes what a wake-up got.
func (p *play) took(generation int64, taken dispatch.WakeupResult, now time.Time) {
	for _, g := range taken.Grants {
		p.given[g] = true
	}
	if !taken.Held {
		return
	}
	from := now.Add(taken.After)
	if taken.Rule != "" {
		from = from.Add(-early)
	}
	if from.Before(now) {
		from = now
	}
	p.hand[generation] = inHand{from}
}

// perform gives a user's wake-up a script.
func (p *play) perform(number int, user string, script []scene) {
	p.store.perform(number, user, func(r dispatch.TakeRequest) (turn, bool) {
		if len(script) == 0 {
			return turn{}, true
		}
		now := script[0]
		script = script[1:]
		next := turn{back: now.next == "back"}
		next.Held, next.After, next.Rule = now.next == "held", now.after, now.rule
		p.mutex.Lock()
		defer p.mutex.Unlock()
		for range min(now.grants, r.Capacity) {
			p.number++
			g := granted()
			g.Partition, g.StartIn, g.Notification.ID = number, now.in, strconv.Itoa(p.number)
			g.AdmittedAt = time.Now().Add(now.in)
			p.scenes[g], p.byID[g.Notification.ID] = now, g
			next.Grants = append(next.Grants, g)
		}
		return next, true
	})
}

// Claim implements dispatch.Store.
func (p *play) Claim(_ context.Context, g *dispatch.Grant) (bool, error) {
	p.mutex.Lock()
	now := p.scenes[g]
	p.claimed[g] = now.claims == "claimed"
	p.mutex.Unlock()
	switch now.claims {
	case "panic":
		panic("a bad row")
	case "error":
		return false, errAway
	}
	return now.claims == "claimed", nil
}

// CheckTarget implements push.Sender.
func (p *play) CheckTarget(string) error { return nil }

// CheckContent implements push.Sender.
func (p *play) CheckContent(*notification.Notification) error { return nil }

// Send implements push.Sender.
func (p *play) Send(ctx context.Context, m push.Message) error {
	p.inside.enter()
	defer p.inside.leave()
	p.mutex.Lock()
	now := p.scenes[p.byID[m.ID]]
	p.sent[m.ID]++
	if early := time.Until(m.AdmittedAt); early > 0 {
		p.fault("something was sent %s before its moment", early)
	}
	p.mutex.Unlock()
	pass(now.provider)
	switch now.sends {
	case "panic":
		panic("a fault of the sender")
	case "transient":
		return &push.Error{Class: push.Transient, Code: "503"}
	case "hangs":
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// Settle implements dispatch.Store.
func (p *play) Settle(ctx context.Context, g *dispatch.Grant, o dispatch.Outcome) (dispatch.Settlement, error) {
	p.mutex.Lock()
	now := p.scenes[g]
	now.failures--
	p.scenes[g] = now
	if now.failures < 0 || len(p.settled[g]) == 0 {
		p.settled[g] = append(p.settled[g], o.Disposition)
	}
	p.mutex.Unlock()
	switch {
	case now.settles == "hangs":
		<-ctx.Done()
		return dispatch.Settlement{}, ctx.Err()
	case now.failures >= 0:
		return dispatch.Settlement{}, errAway
	case now.settles == "panic":
		panic("a bad reply")
	}
	return dispatch.Settlement{Stale: now.settles == "stale"}, nil
}

// Extend implements dispatch.Store.
func (*play) Extend(context.Context, *dispatch.Grant) error { return errAway }

// Whatever store, queue and senders do, and whenever it is stopped: the dispatcher returns all tokens, never makes
// more deliveries at once than it may, none before its moment, each at most once, and settles each exactly as far as
// it went; and each wake-up in its hand is asked for again, not too early, or given back. That no goroutine is left
// over is what the bubble checks.
func TestRandomScripts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(draw *rapid.T) {
		concurrency := rapid.SampledFrom([]int{1, 2, 3, 40}).Draw(draw, "concurrency")
		partitions := rapid.IntRange(1, 3).Draw(draw, "partitions")
		scripts := rapid.SliceOfN(rapid.SliceOfN(scenes, 0, 5), 1, 8).Draw(draw, "scripts")
		bad := rapid.SliceOfN(mishaps, 0, 12).Draw(draw, "mishaps")
		atOnce := rapid.Bool().Draw(draw, "serves at once")
		stop := time.Second + 10*duration(draw, "stop", 10*time.Second)
		var faults []string
		synctest.Test(t, func(*testing.T) {
			p := &play{
				store: newStore(), inside: newGauge(), mishaps: bad,
				calm:   concurrency == 40 && len(bad) == 0 && len(scripts) == 1,
				scenes: map[*dispatch.Grant]scene{}, byID: map[string]*dispatch.Grant{},
				claimed: map[*dispatch.Grant]bool{},
				settled: map[*dispatch.Grant][]dispatch.Disposition{}, sent: map[string]int{},
				given: map[*dispatch.Grant]bool{},
				hand:  map[int64]inHand{}, asking: map[string]bool{},
			}
			cfg := dispatch.Config{
				Concurrency: concurrency, Partitions: partitions, Settings: retries, DrainTimeout: time.Hour,
				Log: slog.New(slog.DiscardHandler),
			}
			p.servesAtOnce = atOnce
			p.dispatcher = dispatch.New(cfg, p, p, push.Registry{notification.ChannelLog: p})
			p.dispatcher.Start()
			for i, script := range scripts {
				p.perform(i%partitions, strconv.Itoa(i), script)
				pass(time.Duration(i) * time.Millisecond)
			}
			pass(stop)
			p.mutex.Lock()
			p.mishaps = nil // so that all can be given back
			p.mutex.Unlock()
			p.dispatcher.Stop()
			faults = p.verdict(concurrency)
		})
		for _, fault := range faults { // rapid's own failures must not be raised in the bubble
			draw.Error(fault)
		}
	})
}

// verdict reports what went against the promises.
func (p *play) verdict(concurrency int) []string {
	if p.dispatcher.TokensTaken() != 0 || p.dispatcher.InFlight() != 0 {
		p.fault("tokens taken: %d, in flight: %d; want none", p.dispatcher.TokensTaken(), p.dispatcher.InFlight())
	}
	if peak := p.inside.peak(); peak > concurrency {
		p.fault("%d deliveries at once, want at most %d", peak, concurrency)
	}
	for g := range p.given {
		dispositions, sent, claimed := p.settled[g], p.sent[g.Notification.ID], p.claimed[g]
		if _, asked := p.claimed[g]; !asked {
			p.fault("grant %s was never claimed", g.Notification.ID)
		}
		switch {
		case !claimed && (sent != 0 || len(dispositions) != 0):
			p.fault("grant %s was not claimed, but sent %d times and settled as %v", g.Notification.ID, sent,
				dispositions)
		case claimed && len(dispositions) == 0:
			p.fault("grant %s was not settled", g.Notification.ID)
		case claimed && dispositions[0] == dispatch.Returned && sent != 0,
			claimed && dispositions[0] != dispatch.Returned && sent != 1:
			p.fault("grant %s was sent %d times and settled as %v", g.Notification.ID, sent, dispositions)
		}
	}
	for generation := range p.hand {
		p.fault("wake-up %d was neither asked for again nor given back", generation)
	}
	return p.faults
}
