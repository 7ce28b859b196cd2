package chaos_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// setting is what a schedule plays in.
type setting struct {
	Seed uint64 `json:"seed"`
	// Durable worlds keep the store in Postgres.
	Durable bool `json:"durable"`
	Procs   int  `json:"procs"`
	// Calm worlds have no fault and nobody who is slow: promises of order and of time are checked in them too.
	Calm bool `json:"calm,omitempty"`
	// The rules: in version 0 of the policy a user's chat may have Max in Per seconds and one each Gap ms, all together
	// Cap in CapPer seconds. Other versions see policyOf.
	Max    int `json:"max"`
	Per    int `json:"per"`
	Gap    int `json:"gap"`
	Cap    int `json:"cap"`
	CapPer int `json:"cap_per"`
	// Nights of Night minutes begin Dusk minutes after the world does; 0: there are none. They end for each user within
	// Spread seconds.
	Night  int `json:"night,omitempty"`
	Dusk   int `json:"dusk,omitempty"`
	Spread int `json:"spread,omitempty"`
	// AtOnce has what waits of users without settings of their own granted in the round that pulls their wake-up.
	AtOnce bool `json:"at_once,omitempty"`
	// Digest of news go as one message at most, in all versions of the policy but one, and wait Company ms for each
	// other; 0: each goes alone.
	Digest  int `json:"digest,omitempty"`
	Company int `json:"company,omitempty"`
	caps
}

// partitions is how many partitions a world has.
const partitions = 2

// world is a deployment in a bubble of testing/synctest: its clock stands still unless it is moved.
type world struct {
	setting
	redis    *server
	database *database // the store's; nil when it is on Redis
	steps    steps
	ledger   *ledger
	homes    homes
	procs    []*process
	graves   []*process // what died, and may still wait for something
	ops      map[int]*operation
	// mutation is the protection that is switched off.
	mutation string
	// idle tells since when a backlog waits although it may go.
	idle map[string]time.Time
	// evictions are when Redis lost keys that only a rebuild brings back; rebuiltAt is when the last rebuild did so.
	evictions []eviction
	rebuiltAt time.Time
	// unwoken are the partitions whose users are still to be looked at again after a change of the policy.
	unwoken [partitions]bool

	mu        sync.Mutex
	faults    map[string]int
	missed    []string
	lates     []lateCall
	blocked   []*link
	told      []string
	shardDown int // a partition whose shard of a cluster is away; -1 none
	version   int // of the policy, the newest
	history   []learned
	nights    map[bool]throttle.Closed // of those who are away, and of the others
	worksOut  sync.Once                // for nights
	paused    map[int]bool
	losses    int
	deaths    int
	lastOp    int
	rebuilt   bool // an operator had it done
	started   int  // processes
}

// lateCall is one whose effect is still to come.
type lateCall struct {
	label string
	do    func()
}

// epoch is when every world begins. Bubbles begin long before.
var epoch = time.Unix(1_800_000_000, 0)

// worldEvery divides the time of the worlds that follow each other in one bubble.
const worldEvery = 1000 * time.Hour

// nextEpoch moves the bubble's clock to the next round moment.
func nextEpoch() {
	at := epoch
	if passed := time.Since(epoch); passed > 0 {
		at = epoch.Add((passed/worldEvery + 1) * worldEvery)
	}
	time.Sleep(time.Until(at)) //nolint:forbidigo // the bubble's clock, which costs nothing
}

// story notes what happened, for people.
func (w *world) story(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, fmt.Sprintf("%10.3f  %s", time.Since(w.began()).Seconds(), line))
}

func (w *world) began() time.Time { return epoch.Add(time.Since(epoch) / worldEvery * worldEvery) }

func (w *world) count(fault string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults[fault]++
}

// arriveLater keeps a call whose caller's time-out passes first.
func (w *world) arriveLater(label string, do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lates = append(w.lates, lateCall{label, do})
}

// arrive lets the first late call have its effect; false when there is none.
func (w *world) arrive() bool {
	w.mu.Lock()
	if len(w.lates) == 0 {
		w.mu.Unlock()
		return false
	}
	first := w.lates[0]
	w.lates = w.lates[1:]
	w.mu.Unlock()
	w.story(first.label + " arrives late")
	// It may have to wait for a lock, which another step frees.
	go first.do()
	w.quiet()
	return true
}

// block notes a connection that waits for a lock.
func (w *world) block(l *link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.blocked, l) {
		w.blocked = append(w.blocked, l)
	}
}

// quiet waits until all operations are at a step, asleep or at their end. A little time passes.
func (w *world) quiet() {
	time.Sleep(20 * time.Microsecond) //nolint:forbidigo // the bubble's clock
	synctest.Wait()
	w.mu.Lock()
	blocked := w.blocked
	w.blocked = nil
	w.mu.Unlock()
	if len(blocked) == 0 {
		return
	}
	for _, l := range blocked {
		l.wake()
	}
	synctest.Wait()
}

// sleep waits on behalf of a process; it ends with its context or the process.
func (w *world) sleep(ctx context.Context, p *process, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-p.ctx.Done():
	}
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the bubble's clock
	w.quiet()
	w.expire()
}

// goOn lets an operation make up to n steps without faults, and reports how many it made.
func (w *world) goOn(number, n int) int {
	for done := range n {
		s := w.steps.first(number)
		if s == nil {
			return done
		}
		w.decide(s, made)
		w.quiet()
	}
	return n
}

// goUntil lets an operation go on until it stops at a step whose label begins so, or at none.
func (w *world) goUntil(number int, label string) {
	s := w.steps.first(number)
	for ; s != nil && !strings.HasPrefix(s.label, label); s = w.steps.first(number) {
		w.decide(s, made)
		w.quiet()
	}
	if s == nil {
		w.missed = append(w.missed, label)
	}
}

// goAll lets everybody go on until nobody waits at a step.
func (w *world) goAll() {
	for range 10_000 {
		waiting := w.steps.operations()
		if len(waiting) == 0 {
			return
		}
		for _, number := range waiting {
			w.goOn(number, 1000)
		}
	}
}

// live lists the operations that have not ended, of processes that live.
func (w *world) live() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	var numbers []int
	for _, number := range slices.Sorted(maps.Keys(w.ops)) {
		if op := w.ops[number]; !op.done && !op.proc.isDead() {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// start runs an operation on a process; it stops at its first step.
func (w *world) start(number int, p *process, name string, do func(ctx context.Context, op *operation)) {
	if p.isDead() {
		return
	}
	op := &operation{number: number, proc: p, name: name}
	w.mu.Lock()
	if _, taken := w.ops[number]; taken {
		w.mu.Unlock()
		return
	}
	w.ops[number] = op
	w.mu.Unlock()
	w.story(fmt.Sprintf("op%d %s begins on process %d", number, name, p.number))
	p.running.Go(func() {
		do(context.WithValue(p.ctx, opKey{}, op), op)
		w.mu.Lock()
		op.done = true
		w.mu.Unlock()
	})
	w.quiet()
}

// versions of the policy.
const versions = 3

// maxOf is how many a user's chat may have under a version.
func (s setting) maxOf(version int) int { return [versions]int{s.Max, s.Max + 2, 1}[version] }

// planOf returns the plan of a category: chat has a limit and a gap, news a limit, urgent bypasses all limits; all
// count for the cap. Some worlds have named caps and a limit by days.
func (s setting) planOf(category string, version int) throttle.Plan {
	var plan throttle.Plan
	switch category {
	case "chat":
		plan.Rules = []throttle.Rule{
			{Max: s.maxOf(version), Per: time.Duration(s.Per) * time.Second},
			{Max: 1, Per: time.Duration(s.Gap) * time.Millisecond, Kind: throttle.KindGap},
		}
	case "news":
		plan.Rules = append(s.perDay(), throttle.Rule{Max: s.Max + 1, Per: time.Duration(s.Per) * time.Second})
	}
	plan.Rules = append(plan.Rules, throttle.Rule{
		Max: s.Cap, Per: time.Duration(s.CapPer) * time.Second, Kind: throttle.KindCap,
	})
	plan.Rules = append(plan.Rules, s.named(category)...)
	return plan
}
