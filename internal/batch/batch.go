// Package batch puts the questions of many callers into one statement or script: while one is under way, those that
// come wait for the next. So a store that is asked seldom answers each at once, and one that is asked much answers many
// at the price of one. Nobody waits for a timer.
package batch

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrClosed says that a question came after Close.
var ErrClosed = errors.New("closed")

// Batcher collects questions Q and gives each its answer A. One batch is under way at a time.
type Batcher[Q, A any] struct {
	most int
	run  func(ctx context.Context, questions []Q) ([]A, error)

	mu      sync.Mutex
	waiting []question[Q, A]
	working bool
	closed  bool
	running sync.WaitGroup
}

type question[Q, A any] struct {
	ctx   context.Context //nolint:containedctx // the caller's values, for the batch that is made of many
	q     Q
	reply chan reply[A] // holds one, so that nobody waits for a caller who has gone
}

type reply[A any] struct {
	answer A
	err    error
}

// New makes a Batcher of at most that many questions at once. Run gives one answer for each, in order, or an error that
// all get; its context is the first caller's, without its end where that could take the others' answers away.
func New[Q, A any](most int, run func(ctx context.Context, questions []Q) ([]A, error)) *Batcher[Q, A] {
	return &Batcher[Q, A]{most: most, run: run}
}

// Ask waits for the answer. When ctx ends before, it is unknown whether the question had its effect.
func (b *Batcher[Q, A]) Ask(ctx context.Context, q Q) (A, error) {
	asked := question[Q, A]{ctx: ctx, q: q, reply: make(chan reply[A], 1)}
	if err := b.join(asked); err != nil {
		var none A
		return none, err
	}
	select {
	case r := <-asked.reply:
		return r.answer, r.err
	case <-ctx.Done():
		var none A
		return none, ctx.Err()
	}
}

// join puts a question among those that wait, and has somebody work them.
func (b *Batcher[Q, A]) join(asked question[Q, A]) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	b.waiting = append(b.waiting, asked)
	if !b.working {
		b.working = true
		b.running.Go(b.work)
	}
	return nil
}

// work answers batches until nobody waits.
func (b *Batcher[Q, A]) work() {
	for batch := b.next(); batch != nil; batch = b.next() {
		b.answer(batch)
	}
}

// next takes the longest waiting; nil when none are.
func (b *Batcher[Q, A]) next() []question[Q, A] {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		b.working = false
		return nil
	}
	n := min(len(b.waiting), b.most)
	batch := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	if len(b.waiting) == 0 {
		b.waiting = nil // else what was answered would be kept
	}
	return batch
}

func (b *Batcher[Q, A]) answer(batch []question[Q, A]) {
	questions := make([]Q, len(batch))
	for i := range batch {
		questions[i] = batch[i].q
	}
	answers, err := b.run(contextOf(batch), questions)
	if err == nil && len(answers) != len(questions) {
		err = fmt.Errorf("%d of %d questions were answered", len(answers), len(questions))
	}
	for i := range batch {
		r := reply[A]{err: err}
		if err == nil {
			r.answer = answers[i]
		}
		batch[i].reply <- r
	}
}

// contextOf is the first caller's; of several, none may end what the others wait for.
func contextOf[Q, A any](batch []question[Q, A]) context.Context {
	if len(batch) == 1 {
		return batch[0].ctx
	}
	return context.WithoutCancel(batch[0].ctx)
}

// Close waits for what was asked before; who asks later gets [ErrClosed].
func (b *Batcher[Q, A]) Close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.running.Wait()
}
