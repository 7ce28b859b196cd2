package chaos_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// verdict is what happens to one step.
type verdict string

const (
	// made: it has its effect and its reply arrives.
	made verdict = "made"
	// notMade: it never reaches the other side, and the caller is told so by an error at once.
	notMade verdict = "not-made"
	// lost: it has its effect, and the reply is lost.
	lost verdict = "lost"
	// late: the caller's time-out passes first; the effect comes later.
	late verdict = "late"
	// twice: the caller's library repeats it after the reply was lost.
	twice verdict = "twice"
	// lastBefore and lastAfter: the process dies before or after it.
	lastBefore verdict = "last-before"
	lastAfter  verdict = "last-after"
	// refused and throttled are responses of the provider: for ever, and for a while.
	refused   verdict = "refused"
	throttled verdict = "throttled"
	// dead is the verdict on every step of a process that has died.
	dead verdict = "dead"
)

var (
	errCut  = errors.New("chaos: connection reset by peer")
	errLate = errors.New("chaos: i/o timeout")
	errDead = errors.New("chaos: the process is dead")
)

// opKey is where a context keeps the [operation] that it belongs to.
type opKey struct{}

// operation is something that a process does at the schedule's bidding, such as one relay round. It works in a
// goroutine of its own and stops at every step.
type operation struct {
	number int
	proc   *process
	name   string
	done   bool
}

// step is a call that waits for its verdict.
type step struct {
	op    *operation
	label string
	order int
	reply chan verdict
}

// steps holds what waits. Its methods may be called from any goroutine of the bubble.
type steps struct {
	mu      sync.Mutex
	waiting []*step
	made    int // how many were asked for
}

// await stops the caller at a step until the schedule gives a verdict, its context ends, or its process has died. What
// belongs to no operation is made at once.
func (w *world) await(ctx context.Context, label string) verdict {
	op, _ := ctx.Value(opKey{}).(*operation)
	if op == nil {
		return made
	}
	if op.proc.isDead() {
		return dead
	}
	w.steps.mu.Lock()
	w.steps.made++
	s := &step{op: op, label: label, order: w.steps.made, reply: make(chan verdict, 1)}
	w.steps.waiting = append(w.steps.waiting, s)
	w.steps.mu.Unlock()
	select {
	case v := <-s.reply:
		return v
	case <-ctx.Done():
		w.steps.remove(s)
		select {
		case v := <-s.reply: // both at once
			return v
		default:
			return notMade
		}
	}
}

func (all *steps) remove(s *step) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.waiting = slices.DeleteFunc(all.waiting, func(x *step) bool { return x == s })
}

// first returns the step of an operation that is to be decided next: of several in an order that is the same in every
// run.
func (all *steps) first(number int) *step {
	all.mu.Lock()
	defer all.mu.Unlock()
	var found *step
	for _, s := range all.waiting {
		if s.op.number != number {
			continue
		}
		if found == nil || cmp.Or(cmp.Compare(s.label, found.label), cmp.Compare(s.order, found.order)) < 0 {
			found = s
		}
	}
	return found
}

// operations lists the numbers of those that wait at a step, in order.
func (all *steps) operations() []int {
	all.mu.Lock()
	defer all.mu.Unlock()
	var numbers []int
	for _, s := range all.waiting {
		numbers = append(numbers, s.op.number)
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// decide lets a step go.
func (w *world) decide(s *step, v verdict) {
	w.steps.remove(s)
	if v != made {
		w.count(string(v) + " " + storeOf(s.label))
	}
	w.story(fmt.Sprintf("op%d %s: %s: %s", s.op.number, s.op.name, s.label, v))
	s.reply <- v
}

// dropAll gives every waiting step of a process its last verdict.
func (all *steps) dropAll(p *process) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.waiting = slices.DeleteFunc(all.waiting, func(s *step) bool {
		if s.op.proc == p {
			s.reply <- dead
			return true
		}
		return false
	})
}

// storeOf is whom a step asks: redis, postgres or the provider.
func storeOf(label string) string {
	store, _, _ := strings.Cut(label, " ")
	return store
}
