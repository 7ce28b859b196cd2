package dispatch

import (
	"context"
	"sync"
	"time"
)

// sharePart is the part of its timeout by which a context may end too soon, since others asked for it before.
const sharePart = 50

// deadlines gives contexts that end after a timeout, or with their parent. Calls that begin at about the same time
// share one: a context and a timer for each of its three calls cost a delivery more than all else.
type deadlines struct {
	parent context.Context //nolint:containedctx // of all that it gives

	mu     sync.Mutex
	latest map[time.Duration]deadline // by timeout
}

type deadline struct {
	ctx   context.Context //nolint:containedctx // it is given to many
	begun time.Time
}

func newDeadlines(parent context.Context) *deadlines {
	return &deadlines{parent: parent, latest: map[time.Duration]deadline{}}
}

// after returns a context that ends after a timeout.
func (d *deadlines) after(timeout time.Duration) context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	last, found := d.latest[timeout]
	if !found || now.Sub(last.begun) > timeout/sharePart {
		ctx, cancel := context.WithDeadline(d.parent, now.Add(timeout))
		context.AfterFunc(ctx, cancel) // nobody knows when the last has ended that has it
		last = deadline{ctx, now}
		d.latest[timeout] = last
	}
	return last.ctx
}

// within gives a context the values of another; of the other nothing else counts.
func within(ctx, values context.Context) context.Context {
	if values == context.Background() {
		return ctx
	}
	return &valued{ctx, values}
}

type valued struct {
	context.Context //nolint:containedctx // it is one

	values context.Context //nolint:containedctx // only its values count
}

// Value implements [context.Context]. What the package context looks for there, it finds in its own.
func (v *valued) Value(key any) any {
	if value := v.values.Value(key); value != nil {
		return value
	}
	return v.Context.Value(key)
}
