package pushtest

import (
	"bytes"
	"context"
	"runtime/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
)

// crowd is how many deliveries are made at once.
const crowd = 64

// crowdCases make many deliveries at once, and check that nothing goes on after them.
func crowdCases(f Features) []scenario {
	cases := []scenario{
		{"ManyAtOnce", manyAtOnce},
		{"OneMessageAtOnce", oneMessageAtOnce},
		{"NoGoroutineStays", noGoroutineStays},
	}
	if f.can(Hangs) {
		cases = append(cases, scenario{"ManyCancelled", manyCancelled})
	}
	return cases
}

// each calls do for each of a crowd, all at once, and waits.
func each(do func(i int)) {
	var begin sync.WaitGroup
	begin.Add(1)
	var done sync.WaitGroup
	for i := range crowd {
		done.Go(func() {
			begin.Wait()
			do(i)
		})
	}
	begin.Done()
	done.Wait()
}

// manyAtOnce: each delivery gets the response to its own call, and each call has the content of its own notification.
func manyAtOnce(p *probe) {
	kinds := []Kind{Delivered}
	for _, kind := range p.Kinds {
		if kind != Hangs && kind != HangsUp && kind != Unreachable {
			kinds = append(kinds, kind)
		}
	}
	messages, wanted := make([]push.Message, crowd), map[string]int{}
	for i := range messages {
		messages[i] = p.message()
		wanted[p.Identity(messages[i].ID)] = i
	}
	p.provider.follow(func(c Call) Response {
		i, ok := wanted[c.Identity]
		if !ok {
			return Response{}
		}
		p.same(c, messages[i])
		return Response{Kind: kinds[i%len(kinds)]}
	})
	each(func(i int) {
		e := p.send(p.Context(), messages[i])
		if kind := kinds[i%len(kinds)]; kind != Delivered {
			p.want(e, kind.class(), 0)
		} else if e != nil {
			p.Errorf("got %v, want delivered", e)
		}
		_ = p.sender.CheckTarget(p.Target)
	})
	p.wantCalls(crowd)
}

// oneMessageAtOnce finds, with the race detector, a sender that writes into its message.
func oneMessageAtOnce(p *probe) {
	m := p.message()
	each(func(int) {
		if e := p.send(p.Context(), m); e != nil {
			p.Errorf("got %v, want delivered", e)
		}
	})
	p.wantCalls(crowd)
}

func manyCancelled(p *probe) {
	p.provider.respondWith(Response{Kind: Hangs})
	ctx, cancel := context.WithCancel(p.Context())
	defer cancel()
	messages := make([]push.Message, crowd)
	for i := range messages {
		messages[i] = p.message()
	}
	var arrived sync.WaitGroup
	arrived.Go(func() {
		if !p.provider.await(crowd, p.Patience) {
			p.Errorf("%d calls, want %d at once", len(p.provider.received()), crowd)
		}
		cancel()
	})
	each(func(i int) { p.want(p.send(ctx, messages[i]), push.Ambiguous, 0) })
	arrived.Wait()
	p.deliver(p.message())
}

// marks numbers the labels of noGoroutineStays.
var marks atomic.Int64

// noGoroutineStays makes, uses and closes a sender in a goroutine with a label. All goroutines that the sender starts
// inherit the label, so those of other tests don't count.
func noGoroutineStays(p *probe) {
	mark := "pushtest-" + strconv.FormatInt(marks.Add(1), 10)
	var used sync.WaitGroup
	used.Go(func() {
		pprof.Do(p.Context(), pprof.Labels("pushtest", mark), p.useAndClose)
	})
	used.Wait()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	timeout := time.NewTimer(p.Patience)
	defer timeout.Stop()
	for {
		var stacks bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&stacks, 1); err != nil {
			p.Fatalf("list the goroutines: %v", err)
		}
		if !bytes.Contains(stacks.Bytes(), []byte(`"`+mark+`"`)) {
			return
		}
		select {
		case <-ticker.C:
		case <-timeout.C:
			p.Fatalf("goroutines of the closed sender stay (label %s):\n%s", mark, stacks.Bytes())
		}
	}
}

// useAndClose makes calls of each kind with a sender of its own. The last ones are cancelled, and may still be under
// way when the sender is closed.
func (p *probe) useAndClose(ctx context.Context) {
	sender := p.New(p.logger())
	defer p.closeOne(sender)
	for _, kind := range append([]Kind{Delivered}, p.Kinds...) {
		if kind != Unreachable && kind != Hangs {
			p.provider.respondWith(Response{Kind: kind})
			_ = p.sendOn(ctx, sender, p.message()) // other cases check what it means
		}
	}
	if !p.can(Hangs) {
		return
	}
	p.provider.respondWith(Response{Kind: Hangs})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	before := len(p.provider.received())
	one, other := p.startOn(ctx, sender, p.message()), p.startOn(ctx, sender, p.message())
	if !p.provider.await(before+2, p.Patience) {
		p.Errorf("%d calls, want 2 at once", len(p.provider.received())-before)
	}
	cancel()
	_, _ = <-one, <-other // they are cancelled, and only have to return
}
