package channel

import (
	"context"
	"errors"
	"sync"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// renewable is a sender that another one can replace while deliveries are under way. These end on the sender that they
// began with, which is closed after the last of them.
type renewable struct {
	mu         sync.Mutex
	descriptor Descriptor
	current    *opening
	// retired are those that were replaced and still have calls under way.
	retired map[*opening]struct{}
	closed  bool
}

// opening is a sender, and how many of its calls are under way.
type opening struct {
	push.Sender

	calls int
}

func newRenewable(d Descriptor, sender push.Sender) *renewable {
	return &renewable{descriptor: d, current: &opening{Sender: sender}, retired: map[*opening]struct{}{}}
}

// replace has later deliveries made by another sender.
func (r *renewable) replace(d Descriptor, sender push.Sender) {
	r.mu.Lock()
	before, idle := r.current, r.current.calls == 0
	if r.closed {
		before, idle = &opening{Sender: sender}, true
	} else {
		r.descriptor, r.current = d, &opening{Sender: sender}
		if !idle {
			r.retired[before] = struct{}{}
		}
	}
	r.mu.Unlock()
	if idle {
		_ = closeSender(before.Sender) // nothing is sent by it any more
	}
}

// described is the channel as it is now.
func (r *renewable) described() Descriptor {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.descriptor
}

// begin begins a call, which end has to end.
func (r *renewable) begin() *opening {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current.calls++
	return r.current
}

func (r *renewable) end(o *opening) {
	r.mu.Lock()
	o.calls--
	_, retired := r.retired[o]
	last := retired && o.calls == 0
	if last {
		delete(r.retired, o)
	}
	r.mu.Unlock()
	if last {
		_ = closeSender(o.Sender) // see above
	}
}

// Send implements [push.Sender].
func (r *renewable) Send(ctx context.Context, m push.Message) error {
	by := r.begin()
	defer r.end(by)
	return by.Send(ctx, m)
}

// CheckTarget implements [push.Checker].
func (r *renewable) CheckTarget(to string) error {
	by := r.begin()
	defer r.end(by)
	return by.CheckTarget(to)
}

// CheckContent implements [push.Checker].
func (r *renewable) CheckContent(n *notification.Notification) error {
	by := r.begin()
	defer r.end(by)
	return by.CheckContent(n)
}

// Close ends the connections of the sender, and of those that it replaced.
func (r *renewable) Close() error {
	r.mu.Lock()
	r.closed = true
	faults := []error{closeSender(r.current.Sender)}
	for o := range r.retired {
		faults = append(faults, closeSender(o.Sender))
	}
	clear(r.retired)
	r.mu.Unlock()
	return errors.Join(faults...)
}
