package gate_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/gate"
	"github.com/pacer-notify/pacer/internal/throttle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sleep lets time pass on the bubble's clock.
func sleep(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// provider counts its calls by target. To targets that begin with bad it responds with failure.
type provider struct {
	push.Checker
	takes   time.Duration
	failure atomic.Pointer[push.Error]

	mu    sync.Mutex
	calls map[string]int
	most  int
	now   int
}

func (p *provider) Send(_ context.Context, m push.Message) error {
	p.mu.Lock()
	if p.calls == nil {
		p.calls = map[string]int{}
	}
	p.calls[m.To]++
	p.now++
	p.most = max(p.most, p.now)
	p.mu.Unlock()
	sleep(p.takes)
	p.mu.Lock()
	p.now--
	p.mu.Unlock()
	if failure := p.failure.Load(); failure != nil && strings.HasPrefix(m.To, "bad") {
		return failure
	}
	return nil
}

func (p *provider) called(to string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[to]
}

func newGate(p *provider, change func(*gate.Config)) *gate.Gate {
	cfg := gate.Config{
		Channel: notification.ChannelWebhook, Host: func(to string) string { return to },
		Limiter: throttle.NewMemory(time.Now), Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	return gate.New(p, cfg)
}

func to(target string) push.Message {
	return push.Message{Notification: &notification.Notification{ID: "n1", To: target}, Attempt: 1}
}

// code is the code of a delivery's failure, or "" when it was delivered.
func code(err error) string {
	failure, _ := errors.AsType[*push.Error](err)
	if failure == nil {
		return ""
	}
	return failure.Code
}

// The breaker keeps calls away from a host that fails. All processes together try it once a second, and call it again
// once it responds. Other hosts are called all the while.
func TestBreakerOpensPerHostAndProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &provider{}
		p.failure.Store(&push.Error{Class: push.Transient, Code: "503"})
		shared := throttle.NewMemory(time.Now)
		share := func(c *gate.Config) { c.Limiter = shared }
		processes := []*gate.Gate{newGate(p, share), newGate(p, share)}
		for range 60 * 20 { // a minute
			for _, g := range processes {
				if err := g.Send(t.Context(), to("good")); err != nil {
					t.Fatalf("a host that works: %v", err)
				}
				failure := push.Classify(g.Send(t.Context(), to("bad")))
				if failure.Code == gate.CodeOpen &&
					(failure.Class != push.Throttled || !failure.Unsent || failure.RetryAfter < time.Second) {
					t.Fatalf("returned as %+v", failure)
				}
			}
			sleep(50 * time.Millisecond)
		}
		if n := p.called("bad"); n < 30 || n > 2*10+60+2 {
			t.Errorf("the dead host was called %d times in a minute, want 10 by each process and one a second", n)
		}
		p.failure.Store(nil)
		sleep(2 * time.Second)
		delivered := 0
		for range 100 {
			for _, g := range processes {
				if g.Send(t.Context(), to("bad")) == nil {
					delivered++
				}
			}
			sleep(50 * time.Millisecond)
		}
		if delivered < 100 {
			t.Errorf("once it is back %d of 200 are delivered", delivered)
		}
	})
}

// A refusal is a response too: one bad target does not stop the others.
func TestRefusalsDoNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	for _, class := range []push.Class{push.Permanent, push.TargetGone, push.Throttled} {
		t.Run(class.String(), func(t *testing.T) {
			t.Parallel()
			p := &provider{}
			p.failure.Store(&push.Error{Class: class, Code: "4xx"})
			g := newGate(p, oneHost)
			for i := range 100 {
				if got := code(g.Send(t.Context(), to(fmt.Sprint("bad", i)))); got != "4xx" {
					t.Fatalf("gives %q", got)
				}
			}
		})
	}
}

// A host that hangs takes only a share of the room, and other deliveries to it do not wait for it.
func TestSilentHostTakesLittleRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &provider{takes: 10 * time.Second}
		p.failure.Store(&push.Error{Class: push.Ambiguous, Code: "timeout"})
		g := newGate(p, func(c *gate.Config) { c.InFlight = 128 })
		waits := make([]time.Duration, 100)
		begin := time.Now()
		var all sync.WaitGroup
		for i := range waits {
			all.Go(func() {
				if code(g.Send(t.Context(), to("bad"))) == gate.CodeBusy {
					waits[i] = time.Since(begin)
				}
			})
		}
		all.Wait()
		if slices.Sort(waits); p.most != 4 || waits[3] != 0 || waits[4] == 0 || waits[99] > 250*time.Millisecond {
			t.Errorf("%d were in flight, and the others waited %s", p.most, waits)
		}
		var stuck sync.WaitGroup
		for range 4 {
			stuck.Go(func() { _ = g.Send(t.Context(), to("bad")) })
		}
		sleep(5 * time.Second)
		before := time.Now()
		failure := push.Classify(g.Send(t.Context(), to("bad")))
		if failure.Code != gate.CodeBusy || time.Since(before) > 0 || failure.RetryAfter < 2500*time.Millisecond {
			t.Errorf("after 5 s of silence: %+v in %s", failure, time.Since(before))
		}
		stuck.Wait()
	})
}

// Calls that hang until they time out open the breaker as well as calls that fail at once.
func TestBreakerOpensForAHostThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &provider{takes: 10 * time.Second}
		p.failure.Store(&push.Error{Class: push.Ambiguous, Code: "timeout"})
		g := newGate(p, nil)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				for range 300 { // half a minute at least
					_ = g.Send(t.Context(), to("bad"))
					sleep(100 * time.Millisecond)
				}
			})
		}
		sleep(10500 * time.Millisecond)
		first := p.called("bad")
		all.Wait()
		if first > 8 || p.called("bad") > 42 || g.States()[0].Breaker == push.BreakerClosed {
			t.Errorf("called %d times until the first were given up, %d times in all: %v", first, p.called("bad"),
				g.States())
		}
	})
}

// A host that responds gets its whole room, one place after the other, and a crowd waits for it in order.
func TestRespondingHostGetsItsRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &provider{takes: 100 * time.Millisecond}
		g := newGate(p, func(c *gate.Config) { c.InFlight = 24 })
		var all sync.WaitGroup
		for range 500 {
			all.Go(func() {
				for g.Send(t.Context(), to("good")) != nil {
					sleep(100 * time.Millisecond)
				}
			})
		}
		all.Wait()
		if p.most != 24 {
			t.Errorf("%d were in flight at most, want 24", p.most)
		}
	})
}

// What takes as long as a policy allows at most opens the breaker too: its window is longer.
func TestBreakerOpensForTheLongestTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &provider{takes: time.Minute}
		p.failure.Store(&push.Error{Class: push.Ambiguous, Code: "timeout"})
		g := newGate(p, nil)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				for range 240 { // four minutes at least
					_ = g.Send(t.Context(), to("bad"))
					sleep(time.Second)
				}
			})
		}
		all.Wait()
		if g.States()[0].Breaker == push.BreakerClosed {
			t.Errorf("called %d times: %v", p.called("bad"), g.States())
		}
	})
}

// A category says which refusals are final, over the gate's channel. Nothing else becomes final by it.
func TestTheCategoryEndsAtARefusal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		category string
		failure  push.Error
		want     push.Class
	}{
		"final":          {category: "once", failure: push.Error{Class: push.Transient, Code: "404"}, want: push.Permanent},
		"not in it":      {category: "once", failure: push.Error{Class: push.Transient, Code: "400"}, want: push.Transient},
		"other category": {category: "chat", failure: push.Error{Class: push.Transient, Code: "404"}, want: push.Transient},
		"no response":    {category: "once", failure: push.Error{Class: push.Transient, Code: "dns"}, want: push.Transient},
		"nobody knows":   {category: "once", failure: push.Error{Class: push.Ambiguous, Code: "timeout"}, want: push.Ambiguous},
		"may have it":    {category: "once", failure: push.Error{Class: push.Ambiguous, Code: "404"}, want: push.Permanent},
		"slow down":      {category: "once", failure: push.Error{Class: push.Throttled, Code: "404"}, want: push.Throttled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &provider{}
			p.failure.Store(&c.failure)
			g := newGate(p, func(cfg *gate.Config) {
				cfg.EndsAt = func(category string, channel notification.Channel, status int) bool {
					return category == "once" && channel == notification.ChannelWebhook && status == 404
				}
			})
			m := to("bad")
			m.Category = c.category
			got := push.Classify(g.Send(t.Context(), m))
			if got.Class != c.want || got.Counts() != (c.failure.Class == push.Ambiguous) {
				t.Errorf("it is %s and counts %t, want %s", got.Class, got.Counts(), c.want)
			}
		})
	}
}

// A panic of the sender counts as a failure. The breaker's trial call does not stay under way for ever.
func TestPanicIsAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &panicking{}
		g := gate.New(p, gate.Config{
			Channel: notification.ChannelWebhook, Limiter: throttle.NewMemory(time.Now),
			Log: slog.New(slog.DiscardHandler),
		})
		send := func() (err error) {
			defer func() {
				if recover() != nil {
					err = &push.Error{Class: push.Ambiguous, Code: "panic"}
				}
			}()
			return g.Send(t.Context(), to("any"))
		}
		for range 200 { // fails until the breaker opens, then panics when it is tried
			_ = send()
			sleep(100 * time.Millisecond)
		}
		p.well.Store(true)
		sleep(time.Second)
		for range 20 {
			if send() == nil {
				return
			}
			sleep(100 * time.Millisecond)
		}
		t.Errorf("the breaker stays %v", g.States())
	})
}

// panicking fails ten times, then panics until it is well.
type panicking struct {
	push.Checker
	calls atomic.Int64
	well  atomic.Bool
}

func (p *panicking) Send(context.Context, push.Message) error {
	if p.well.Load() {
		return nil
	}
	if p.calls.Add(1) > 10 {
		panic("as tested")
	}
	return &push.Error{Class: push.Transient, Code: "503"}
}

// Budgets hold over all processes. What is beyond them waits until there is room again.
func TestBudgetsHoldOverAllProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &provider{}
		shared := throttle.NewMemory(time.Now)
		budget := func(c *gate.Config) {
			c.Limiter = shared
			c.Budget = []throttle.Rule{{Max: 10, Per: time.Minute}}
			c.PerTarget = []throttle.Rule{{Max: 2, Per: time.Minute}}
		}
		processes := []*gate.Gate{newGate(p, budget), newGate(p, budget)}
		codes := map[string]int{}
		for i := range 30 {
			err := processes[i%2].Send(t.Context(), to("device "+string(rune('a'+i/3))))
			codes[code(err)]++
			failure := push.Classify(err)
			if failure != nil && (failure.RetryAfter <= 0 || failure.RetryAfter > 2*time.Minute || !failure.Unsent) {
				t.Fatalf("returned as %+v", failure)
			}
		}
		if codes[""] != 10 || codes[gate.CodeTarget] == 0 || codes[gate.CodeBudget] == 0 {
			t.Errorf("of 30 came %v, want 10 delivered", codes)
		}
	})
}

// New credentials end a pause that the old ones caused, also when a call that was made with the old ones is refused
// only after they were replaced. A pause that the provider asked for stays.
func TestNewCredentialsEndThePauseOfTheOldOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &provider{}
		g := newGate(p, func(c *gate.Config) { c.Host = func(string) string { return "provider" } })
		send := func(target string) *push.Error { return push.Classify(g.Send(t.Context(), to(target))) }
		p.failure.Store(&push.Error{Class: push.CredentialsRefused, Code: "401", Concerns: push.ConcernsEverybody})
		if e := send("bad"); e == nil || e.Class != push.CredentialsRefused {
			t.Fatalf("the refused call: %v", e)
		}
		if e := send("good"); e == nil || e.Code != gate.CodePaused {
			t.Fatalf("after it: %v, want the channel paused", e)
		}
		if !g.Renew("new") {
			t.Error("want it to say that it was paused")
		}
		if e := send("good"); e != nil {
			t.Errorf("with new credentials: %v", e)
		}

		p.takes = time.Second
		late := make(chan *push.Error)
		go func() { late <- send("bad") }()
		synctest.Wait()
		sleep(time.Millisecond)
		if g.Renew("newer") {
			t.Error("nothing was paused")
		}
		if e := <-late; e == nil || e.Code != gate.CodePaused || !e.Unsent || e.RetryAfter > time.Second {
			t.Errorf("refused with the old credentials: %v, want it to be tried again at once", e)
		}
		p.takes = 0
		if e := send("good"); e != nil {
			t.Errorf("after that: %v, want no pause", e)
		}

		p.failure.Store(&push.Error{
			Class: push.Throttled, Code: "429", Concerns: push.ConcernsEverybody, RetryAfter: time.Minute,
		})
		if e := send("bad"); e == nil || e.Code != "429" {
			t.Fatalf("the throttled call: %v", e)
		}
		if g.Renew("newest") {
			t.Error("the provider asked for this pause")
		}
		if e := send("good"); e == nil || e.Code != gate.CodePaused {
			t.Errorf("throttled: %v, want the pause to stay", e)
		}
	})
}

// What the channel's budget refuses takes nothing from the budget of its target, in whichever process it is tried.
func TestARefusedTryTakesNothingFromItsTarget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &provider{}
		shared := throttle.NewMemory(time.Now)
		budget := func(c *gate.Config) {
			c.Limiter = shared
			c.Budget = []throttle.Rule{{Max: 1, Per: time.Minute}}
			c.PerTarget = []throttle.Rule{{Max: 3, Per: 24 * time.Hour}}
		}
		processes := []*gate.Gate{newGate(p, budget), newGate(p, budget)}
		for minute := range 3 {
			if err := processes[minute%2].Send(t.Context(), to("device")); err != nil {
				t.Errorf("in minute %d: %v", minute, err)
			}
			for i := range 20 {
				if got := code(processes[i%2].Send(t.Context(), to("device"))); got != gate.CodeBudget && minute < 2 {
					t.Errorf("beyond the budget, in minute %d: %q", minute, got)
				}
				sleep(time.Second)
			}
			sleep(time.Minute)
		}
		if got := code(processes[0].Send(t.Context(), to("device"))); got != gate.CodeTarget {
			t.Errorf("beyond its own budget: %q", got)
		}
	})
}

// Another credential has a budget of its own at once.
func TestAnotherCredentialHasItsOwnBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(&provider{}, func(c *gate.Config) {
			c.Budget, c.BudgetKey = []throttle.Rule{{Max: 1, Per: time.Hour}}, "one"
		})
		for _, want := range []string{"", gate.CodeBudget, gate.CodeBudget} {
			if got := code(g.Send(t.Context(), to("device"))); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		g.Renew("another")
		if err := g.Send(t.Context(), to("device")); err != nil {
			t.Errorf("with another credential: %v", err)
		}
	})
}
