package pushtest

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
)

// contextCases end contexts before a call, during it, and at any moment.
func contextCases(f Features) []scenario {
	cases := []scenario{
		{"CancelledBefore", func(p *probe) {
			ctx, cancel := context.WithCancel(p.Context())
			cancel()
			p.endedBefore(ctx)
		}},
		{"DeadlineBefore", func(p *probe) {
			ctx, cancel := context.WithDeadline(p.Context(), time.Unix(0, 0))
			defer cancel()
			p.endedBefore(ctx)
		}},
		{"CutAnywhere", cutAnywhere},
	}
	if f.can(Hangs) {
		cases = append(cases,
			scenario{"CancelledDuring", cancelledDuring},
			scenario{"DeadlineDuring", deadlineDuring},
			scenario{"CancelledAlone", cancelledAlone},
		)
	}
	return cases
}

// endedBefore sends with a context that has ended, on a sender without a connection and on one that has a connection.
func (p *probe) endedBefore(ctx context.Context) {
	p.wantUnsent(p.send(ctx, p.message()), push.Transient)
	p.wantCalls(0)
	p.deliver(p.message())
	p.wantUnsent(p.send(ctx, p.message()), push.Transient)
	p.wantCalls(1)
}

func cancelledDuring(p *probe) {
	for round := range 2 {
		p.provider.respondWith(Response{Kind: Hangs})
		ctx, cancel := context.WithCancel(p.Context())
		outcome := p.start(ctx, p.message())
		arrived := p.provider.await(2*round+1, p.Patience)
		cancel()
		if e := <-outcome; arrived {
			p.want(e, push.Ambiguous, 0)
		} else {
			p.Fatalf("no call, and %v", e)
		}
		p.deliver(p.message())
	}
	p.wantCalls(4)
}

// deadlineDuring allows more time on a slow machine, until the deadline falls into the call.
func deadlineDuring(p *probe) {
	p.provider.respondWith(Response{Kind: Hangs})
	for allowance := 50 * time.Millisecond; allowance < p.Patience; allowance *= 2 {
		ctx, cancel := context.WithTimeout(p.Context(), allowance)
		e := p.send(ctx, p.message())
		cancel()
		if len(p.provider.received()) > 0 {
			p.want(e, push.Ambiguous, 0)
			return
		}
	}
	p.Fatalf("no call came before its deadline")
}

// cancelledAlone: the end of one call does not end another, even on the same connection.
func cancelledAlone(p *probe) {
	patient, impatient := p.message(), p.message()
	release := make(chan struct{})
	p.provider.follow(func(c Call) Response {
		if c.Identity == p.Identity(impatient.ID) {
			return Response{Kind: Hangs}
		}
		select {
		case <-release:
		case <-p.provider.Over():
		}
		return Response{}
	})
	stays := p.start(p.Context(), patient)
	ctx, cancel := context.WithCancel(p.Context())
	ends := p.start(ctx, impatient)
	arrived := p.provider.await(2, p.Patience)
	cancel()
	p.want(<-ends, push.Ambiguous, 0)
	close(release)
	if e := <-stays; e != nil || !arrived {
		p.Errorf("the other call, at the provider: %t, ends with %v; want delivered", arrived, e)
	}
}

// cutAnywhere ends the context at some moment of each call. The ledger is balanced at the end. It shows whether the
// sender called a notification unsent that had arrived, or sent one twice.
func cutAnywhere(p *probe) {
	p.deliver(p.message())
	for range 200 {
		ctx, cancel := context.WithTimeout(p.Context(), rand.N(500*time.Microsecond))
		if e := p.send(ctx, p.message()); e != nil && e.Class != push.Transient && e.Class != push.Ambiguous {
			p.Errorf("got %v, want transient or ambiguous", e)
		} else if e != nil && e.Unsent != (e.Class == push.Transient) {
			p.Errorf("got %v, unsent %t; a call that was cut off is either unsent or ambiguous", e, e.Unsent)
		}
		cancel()
	}
	p.deliver(p.message())
}
