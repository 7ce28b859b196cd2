package gate_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/gate"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Any number of hosts that hang hold a bounded number of places together. Hosts that respond are called all the while,
// and a new one gets its turn.
func TestManyHangingHostsHoldFewPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &crowded{}
		g := gate.New(p, gate.Config{
			Host: func(to string) string { return to }, InFlight: 192, Limiter: throttle.NewMemory(time.Now),
			Log: slog.New(slog.DiscardHandler),
		})
		if err := g.Send(t.Context(), to("good")); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for second := range 60 {
			for i := range 60 {
				all.Go(func() {
					_ = g.Send(t.Context(), to(fmt.Sprint("bad", (second*60+i)%900)))
				})
			}
			for range 10 {
				if err := g.Send(t.Context(), to("good")); err != nil {
					t.Fatalf("beside them: %v", err)
				}
				sleep(100 * time.Millisecond)
			}
		}
		begin := time.Now()
		for {
			failure := push.Classify(g.Send(t.Context(), to("good new")))
			if failure == nil {
				break
			}
			sleep(failure.RetryAfter)
		}
		if took := time.Since(begin); took > time.Minute {
			t.Errorf("a new host was first called after %s", took)
		}
		all.Wait()
		if p.most > 192/4+1 {
			t.Errorf("900 hanging hosts held %d places of 192", p.most)
		}
	})
}

// A host that fails now and then goes on being called by many, and no delivery waits for long.
func TestAHostThatFailsNowAndThenIsCalledOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &flaky{}
		g := gate.New(p, gate.Config{
			InFlight: 192, Limiter: throttle.NewMemory(time.Now), Log: slog.New(slog.DiscardHandler),
		})
		var all sync.WaitGroup
		begin := time.Now()
		for i := range 3000 {
			all.Go(func() {
				for {
					failure := push.Classify(g.Send(t.Context(), to(fmt.Sprint(i))))
					if failure == nil {
						return
					}
					sleep(max(failure.RetryAfter, 100*time.Millisecond))
				}
			})
			if i%10 == 0 {
				sleep(time.Millisecond)
			}
		}
		all.Wait()
		took := time.Since(begin)
		t.Logf("3,000 deliveries took %s", took)
		if took > 20*time.Second {
			t.Error("want 20 s at most")
		}
	})
}

// flaky fails every fifth call.
type flaky struct {
	push.Checker
	calls atomic.Int64
}

func (f *flaky) Send(context.Context, push.Message) error {
	n := f.calls.Add(1)
	sleep(time.Duration(50+n%97) * time.Millisecond)
	if n%5 == 0 {
		return &push.Error{Class: push.Transient, Code: "503"}
	}
	return nil
}

// crowded counts the calls in flight to targets that begin with bad, which hang.
type crowded struct {
	push.Checker

	mu        sync.Mutex
	now, most int
}

func (c *crowded) Send(_ context.Context, m push.Message) error {
	if m.To[0] != 'b' {
		return nil
	}
	c.mu.Lock()
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	sleep(10 * time.Second)
	c.mu.Lock()
	c.now--
	c.mu.Unlock()
	return &push.Error{Class: push.Ambiguous, Code: "timeout"}
}

// A response that drips opens no places.
func TestADrippingHostGetsNoMorePlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &drips{}
		g := gate.New(p, gate.Config{
			Host: func(to string) string { return to }, InFlight: 192, Limiter: throttle.NewMemory(time.Now),
			Log: slog.New(slog.DiscardHandler),
		})
		var all sync.WaitGroup
		for range 40 {
			all.Go(func() {
				for g.Send(t.Context(), to("any")) != nil {
					sleep(100 * time.Millisecond)
				}
			})
		}
		all.Wait()
		if p.most > 192/32 {
			t.Errorf("a dripping host held %d places", p.most)
		}
	})
}

// A host that takes long for each response earns no places by it, and counts as a stranger: many such hosts together
// leave the room to those that respond soon.
func TestSlowHostsLeaveTheRoomToOthers(t *testing.T) {
	t.Parallel()
	const timeout = 20 * time.Second
	for name, c := range map[string]struct {
		hosts int
		takes time.Duration
		most  int // places held at once
	}{
		"one slow host":   {hosts: 1, takes: 6 * time.Second, most: 192 / 32},
		"many slow hosts": {hosts: 60, takes: 6 * time.Second, most: 192/4 + 1},
		"one quick host":  {hosts: 1, takes: 4 * time.Second, most: 192},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &provider{takes: c.takes}
				g := newGate(p, func(cfg *gate.Config) { cfg.InFlight = 192 })
				var all sync.WaitGroup
				for i := range 200 {
					all.Go(func() {
						for began := time.Now(); time.Since(began) < 90*time.Second; {
							ctx, cancel := context.WithTimeout(t.Context(), timeout)
							_ = g.Send(ctx, to(fmt.Sprint("host", i%c.hosts)))
							cancel()
							sleep(time.Second)
						}
					})
				}
				all.Wait()
				if p.most > c.most || c.most == 192 && p.most < 100 {
					t.Errorf("they held %d places at once, want %d", p.most, c.most)
				}
			})
		})
	}
}

// drips counts its calls in flight.
type drips struct {
	push.Checker

	mu        sync.Mutex
	now, most int
}

func (d *drips) Send(ctx context.Context, _ push.Message) error {
	d.mu.Lock()
	d.now++
	d.most = max(d.most, d.now)
	d.mu.Unlock()
	sleep(2 * time.Second)
	d.mu.Lock()
	d.now--
	d.mu.Unlock()
	push.Drips(ctx)
	return nil
}

// Hosts that nobody calls any more are forgotten, also those that are away, and there is a bound on all of them.
func TestHostsThatAreGoneAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &provider{}
		p.failure.Store(&push.Error{Class: push.Transient, Code: "dns"})
		g := newGate(p, nil)
		for i := range 12_000 {
			for range 10 { // until its breaker opens
				_ = g.Send(t.Context(), to(fmt.Sprint("bad", i)))
			}
		}
		if open := g.Open(); open == 0 || open > 10_000 {
			t.Errorf("of 12,000 hosts that are away %d are remembered", open)
		}
		if told := len(g.States()); told > 100 {
			t.Errorf("operators are told of %d hosts", told)
		}
		sleep(61 * time.Minute)
		if open := g.Open(); open > 0 {
			t.Errorf("an hour later %d are remembered", open)
		}
	})
}

// A hundred thousand hosts that are called once each leave the memory as it was.
//
//nolint:paralleltest // it measures the heap
func TestHostsSeenOnceCostNoMemory(t *testing.T) {
	g := gate.New(swallows{}, gate.Config{
		Host: func(to string) string { return to }, Limiter: throttle.NewMemory(time.Now),
		Log: slog.New(slog.DiscardHandler),
	})
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	send := func(from, until int) {
		for i := from; i < until; i++ {
			if err := g.Send(t.Context(), to(fmt.Sprint("host", i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(0, 20_000)
	before := heap()
	send(20_000, 120_000)
	after := heap()
	t.Logf("the heap grew by %d KiB from the 20,000th host to the 120,000th", (after-before)>>10)
	if after-before > 16<<20 {
		t.Errorf("it grew by %d bytes", after-before)
	}
}

// swallows delivers everything, and keeps nothing.
type swallows struct{ push.Checker }

func (swallows) Send(context.Context, push.Message) error { return nil }
