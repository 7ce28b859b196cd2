package postgres

import (
	"context"
	"errors"
	"sync"
)

// errClosed says that a question came after the end.
var errClosed = errors.New("the record is closed")

// batcher puts the questions of many callers into one statement: while one is under way, those that come wait for the
// next. Nobody waits for a timer. Two statements at once were measured to be slower than one: each holds half as many.
type batcher[Q, A any] struct {
	most    int
	run     func(ctx context.Context, questions []Q) ([]A, error)
	asked   chan question[Q, A]
	closing chan struct{}
	once    sync.Once
	running sync.WaitGroup
}

type question[Q, A any] struct {
	ctx   context.Context //nolint:containedctx // the caller's values, for the statement that is made of many
	q     Q
	reply chan reply[A] // holds one, so that nobody waits for a caller who has gone
}

type reply[A any] struct {
	answer A
	err    error
}

// newBatcher makes a batcher of statements with that many questions at most; run gives one answer each, in order.
func newBatcher[Q, A any](most int, run func(context.Context, []Q) ([]A, error)) *batcher[Q, A] {
	b := &batcher[Q, A]{most: most, run: run, asked: make(chan question[Q, A]), closing: make(chan struct{})}
	b.running.Go(b.work)
	return b
}

// ask waits for the answer. When ctx ends before, it is unknown whether the question had its effect.
func (b *batcher[Q, A]) ask(ctx context.Context, q Q) (A, error) {
	asked := question[Q, A]{ctx: ctx, q: q, reply: make(chan reply[A], 1)}
	var none A
	select {
	case b.asked <- asked:
	case <-b.closing:
		return none, errClosed
	case <-ctx.Done():
		return none, ctx.Err()
	}
	select {
	case r := <-asked.reply:
		return r.answer, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

func (b *batcher[Q, A]) work() {
	for {
		select {
		case first := <-b.asked:
			b.answer(b.gather(first))
		case <-b.closing:
			return
		}
	}
}

// gather takes what is being asked besides the first.
func (b *batcher[Q, A]) gather(first question[Q, A]) []question[Q, A] {
	batch := []question[Q, A]{first}
	for len(batch) < b.most {
		select {
		case next := <-b.asked:
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}

func (b *batcher[Q, A]) answer(batch []question[Q, A]) {
	questions := make([]Q, len(batch))
	for i := range batch {
		questions[i] = batch[i].q
	}
	answers, err := b.run(batch[0].ctx, questions)
	for i := range batch {
		r := reply[A]{err: err}
		if err == nil {
			r.answer = answers[i]
		}
		batch[i].reply <- r
	}
}

// close waits for the statements under way.
func (b *batcher[Q, A]) close() {
	b.once.Do(func() { close(b.closing) })
	b.running.Wait()
}
