package dispatch

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
)

// Stepper serves the partitions as a [Dispatcher] does, one round at a time, but only when it is told to: for tests of
// whole deployments, in which somebody else decides what happens when. Its methods may be called from any goroutine.
type Stepper struct {
	dispatcher *Dispatcher
	partitions []*stepped
}

// stepped is a partition in which one round at a time is made.
type stepped struct {
	partition
	lock chan struct{}
	// next is when the first held wake-up is due, in Unix ns; 0 when none is held.
	next atomic.Int64
}

// NewStepper makes one.
func NewStepper(cfg Config, store Store, archive Archiver, senders push.Registry) *Stepper {
	s := &Stepper{dispatcher: New(cfg, store, unsignaled{archive}, senders)}
	for number := range s.dispatcher.cfg.Partitions {
		s.partitions = append(s.partitions, &stepped{
			partition: partition{Dispatcher: s.dispatcher, number: number}, lock: make(chan struct{}, 1),
		})
	}
	return s
}

// Round makes one round of a partition: it asks for held wake-ups that are due, and pulls up to pull new ones. Each
// granted delivery is made by spawn, in the order in which they were granted; if it is nil, here, one after the other.
// While another round of the partition is under way it waits for that. The error is that of the round.
func (s *Stepper) Round(ctx context.Context, number, pull int, spawn func(deliver func())) error {
	grants, err := s.partitions[number].step(ctx, pull)
	for _, g := range grants {
		if spawn == nil {
			s.dispatcher.run(ctx, g)
		} else {
			spawn(func() { s.dispatcher.run(ctx, g) })
		}
	}
	return err
}

// Next is when the first held wake-up is due; false when none is held. A round that is under way changes
// it at its end.
func (s *Stepper) Next(number int) (time.Time, bool) {
	next := s.partitions[number].next.Load()
	return time.Unix(0, next), next != 0
}

// Release returns all held wake-ups to the queue, as a process that stops does.
func (s *Stepper) Release(ctx context.Context, number int) {
	p := s.partitions[number]
	if !p.enter(ctx) {
		return
	}
	defer p.leave()
	p.release(ctx, p.held.popAll())
}

// InFlight is how many deliveries are being made.
func (s *Stepper) InFlight() int { return s.dispatcher.InFlight() }

// step makes a round, and gives what was granted; each grant has its token.
func (p *stepped) step(ctx context.Context, pull int) (grants []*Grant, err error) {
	if !p.enter(ctx) {
		return nil, ctx.Err()
	}
	defer p.leave()
	p.turn = p.capacity.forTokens(maxTokens)
	defer p.endTurn()
	select {
	case <-p.turn.granted:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	err = p.round(ctx, min(pull, takeBatch), func(g *Grant) { grants = append(grants, g) })
	return grants, err
}

// enter locks the partition; false when the context ends before.
func (p *stepped) enter(ctx context.Context) bool {
	select {
	case p.lock <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *stepped) leave() {
	next := int64(0)
	if at, ok := p.held.next(); ok {
		next = at.UnixNano()
	}
	p.next.Store(next)
	<-p.lock
}

// unsignaled is a queue without signals: a Stepper pulls when it is told to.
type unsignaled struct{ Archiver }

// Pending implements [Queue].
func (unsignaled) Pending(int) <-chan struct{} { return nil }
