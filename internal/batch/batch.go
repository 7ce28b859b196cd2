// Package batch joins the requests of many callers into one statement or script. While a batch is under way, requests
// wait for the next one. So a store that gets few requests serves each of them at once, and a store that gets many
// serves many at the price of one. No request waits for a timer.
package batch

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrClosed says that a request came after Close.
var ErrClosed = errors.New("closed")

// Batcher collects requests and gives each its result. One batch is under way at a time.
type Batcher[Request, Result any] struct {
	maxSize int
	run     func(ctx context.Context, requests []Request) ([]Result, error)

	mu      sync.Mutex
	pending []call[Request, Result]
	running bool
	closed  bool
	runs    sync.WaitGroup
}

// call is a request whose caller waits.
type call[Request, Result any] struct {
	ctx     context.Context //nolint:containedctx // the caller's values, for a batch of several callers
	request Request
	done    chan Outcome[Result] // buffered: the caller may have gone
}

// New makes a Batcher of at most maxSize requests per batch. Run returns one result for each request, in order, or an
// error that all callers get. Its context has the values of the first caller's; the end of that context ends only a
// batch of one.
func New[Request, Result any](
	maxSize int, run func(ctx context.Context, requests []Request) ([]Result, error),
) *Batcher[Request, Result] {
	return &Batcher[Request, Result]{maxSize: maxSize, run: run}
}

// Do waits for the result of a request. When ctx ends first, it is unknown whether the request took effect.
func (b *Batcher[Request, Result]) Do(ctx context.Context, request Request) (Result, error) {
	c := call[Request, Result]{ctx: ctx, request: request, done: make(chan Outcome[Result], 1)}
	if err := b.add(c); err != nil {
		var none Result
		return none, err
	}
	select {
	case o := <-c.done:
		return o.Result, o.Err
	case <-ctx.Done():
		var none Result
		return none, ctx.Err()
	}
}

// add appends a call to the pending ones, and starts to run batches unless that is under way.
func (b *Batcher[Request, Result]) add(c call[Request, Result]) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	b.pending = append(b.pending, c)
	if !b.running {
		b.running = true
		b.runs.Go(b.runAll)
	}
	return nil
}

// runAll runs batches until no call is pending.
func (b *Batcher[Request, Result]) runAll() {
	for calls := b.next(); calls != nil; calls = b.next() {
		b.runBatch(calls)
	}
}

// next removes the calls of the next batch, oldest first; nil when none is pending.
func (b *Batcher[Request, Result]) next() []call[Request, Result] {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pending) == 0 {
		b.running = false
		return nil
	}
	n := min(len(b.pending), b.maxSize)
	calls := b.pending[:n:n]
	b.pending = b.pending[n:]
	if len(b.pending) == 0 {
		b.pending = nil // so that finished calls can be collected
	}
	return calls
}

func (b *Batcher[Request, Result]) runBatch(calls []call[Request, Result]) {
	requests := make([]Request, len(calls))
	for i := range calls {
		requests[i] = calls[i].request
	}
	results, err := b.run(contextOf(calls), requests)
	if err == nil && len(results) != len(requests) {
		err = fmt.Errorf("a batch of %d requests has %d results", len(requests), len(results))
	}
	for i := range calls {
		o := Outcome[Result]{Err: err}
		if err == nil {
			o.Result = results[i]
		}
		calls[i].done <- o
	}
}

// contextOf is the context of the first call; of several calls, none may end the batch of the others.
func contextOf[Request, Result any](calls []call[Request, Result]) context.Context {
	if len(calls) == 1 {
		return calls[0].ctx
	}
	return context.WithoutCancel(calls[0].ctx)
}

// Close waits for the requests that came before; later ones get [ErrClosed].
func (b *Batcher[Request, Result]) Close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.runs.Wait()
}
