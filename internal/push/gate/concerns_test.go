package gate_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/gate"
)

// oneHost puts all targets on one host.
func oneHost(c *gate.Config) { c.Host = nil }

// Refused credentials pause the channel, and nothing is lost. When the pause is over, one delivery is tried. All go on
// when it succeeds.
func TestRefusedCredentialsPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		p := &provider{}
		p.failure.Store(&push.Error{
			Class: push.CredentialsRefused, Code: "403", Concerns: push.ConcernsEverybody,
		})
		g := newGate(p, func(c *gate.Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		first := push.Classify(g.Send(t.Context(), to("bad")))
		if line := log.String(); first.Class != push.CredentialsRefused || !strings.Contains(line, "level=ERROR") ||
			!strings.Contains(line, "refuses this deployment's credentials") {
			t.Errorf("gives %v, and the log says %s", first, line)
		}
		for range 100 {
			if got := code(g.Send(t.Context(), to("bad"))); got != gate.CodePaused {
				t.Fatalf("while it is paused: %q", got)
			}
		}
		sleep(time.Minute)
		_ = g.Send(t.Context(), to("bad")) // the one that tries
		if p.called("bad") != 2 {
			t.Errorf("called %d times, want 2", p.called("bad"))
		}
		sleep(time.Minute)
		p.failure.Store(nil)
		for range 10 {
			if err := g.Send(t.Context(), to("bad")); err != nil {
				t.Errorf("once the credentials are right: %v", err)
			}
		}
	})
}

// One foreign subscription must not make the others wait: while the host accepts others, a refusal concerns this one.
// It is tried again a number of times, and not for ever.
func TestARefusalBesideDeliveriesConcernsItsTarget(t *testing.T) {
	t.Parallel()
	for _, class := range []push.Class{push.CredentialsRefused, push.TargetGone} {
		t.Run(class.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &provider{}
				p.failure.Store(&push.Error{Class: class, Code: "403", Concerns: push.ConcernsCredential})
				g := newGate(p, oneHost)
				waited := 0
				for i := range 600 {
					if i%60 == 30 {
						failure := push.Classify(g.Send(t.Context(), to(fmt.Sprint("bad", i))))
						if class == push.TargetGone && failure.Class != push.TargetGone ||
							class != push.TargetGone && (failure.Class != push.Transient ||
								failure.RetryAfter < time.Minute) {
							t.Errorf("the refused one gets %+v", failure)
						}
					}
					if g.Send(t.Context(), to("good")) != nil {
						waited++
					}
				}
				if waited > 0 {
					t.Errorf("%d of 600 others wait", waited)
				}
			})
		})
	}
}

// Before anything was accepted, one refused target stops the others for seconds only, and the pause ends with the first
// sign of life.
func TestTheFirstRefusalIsNoProof(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &provider{}
		p.failure.Store(&push.Error{Class: push.CredentialsRefused, Code: "403"}) // it does not say whom it concerns
		g := newGate(p, oneHost)
		if failure := push.Classify(g.Send(t.Context(), to("bad"))); failure.Class != push.CredentialsRefused {
			t.Errorf("gives %+v", failure)
		}
		if got := code(g.Send(t.Context(), to("good"))); got != gate.CodePaused {
			t.Errorf("right after it: %q", got)
		}
		sleep(5 * time.Second)
		for range 10 {
			if err := g.Send(t.Context(), to("good")); err != nil {
				t.Errorf("seconds later: %v", err)
			}
		}
	})
}

// When a host refuses every device as another app's, the settings are suspected: it pauses, and no device is
// deactivated.
func TestNoDeviceIsDeactivatedForWrongSettings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &provider{}
		p.failure.Store(&push.Error{
			Class: push.TargetGone, Code: "400.BadDeviceToken", Concerns: push.ConcernsCredential,
		})
		g := newGate(p, oneHost)
		classes := map[push.Class]int{}
		for i := range 50 {
			classes[push.Classify(g.Send(t.Context(), to(fmt.Sprint("bad", i)))).Class]++
		}
		if classes[push.TargetGone] > 0 || classes[push.Transient] != 2 || classes[push.CredentialsRefused] != 1 ||
			classes[push.Throttled] != 47 {
			t.Errorf("50 devices get %v, want two tried again, one refused, and the others paused", classes)
		}
		sleep(time.Minute)
		if err := g.Send(t.Context(), to("good")); err != nil {
			t.Errorf("the one that tries: %v", err)
		}
		if failure := push.Classify(g.Send(t.Context(), to("bad1"))); failure.Class != push.TargetGone {
			t.Errorf("once the settings are right, a bad device gets %+v", failure)
		}
	})
}

// When most devices are refused and some are not, nothing pauses, and none is deactivated until most are accepted.
func TestNoDeviceIsDeactivatedWhileMostAreRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &provider{}
		p.failure.Store(&push.Error{
			Class: push.TargetGone, Code: "403.SENDER_ID_MISMATCH", Concerns: push.ConcernsCredential,
		})
		g := newGate(p, oneHost)
		gone := 0
		for i := range 100 {
			if i%10 == 0 {
				if err := g.Send(t.Context(), to("good")); err != nil {
					t.Errorf("a good device: %v", err)
				}
			}
			if push.Classify(g.Send(t.Context(), to(fmt.Sprint("bad", i)))).Class == push.TargetGone {
				gone++
			}
		}
		if gone > 15 {
			t.Errorf("%d of 100 are gone although most are refused", gone)
		}
		for range 200 {
			_ = g.Send(t.Context(), to("good"))
		}
		if failure := push.Classify(g.Send(t.Context(), to("bad1"))); failure.Class != push.TargetGone {
			t.Errorf("once most are accepted, a bad device gets %+v", failure)
		}
	})
}

// When the quota of everybody is used up, all deliveries wait for as long as the provider asks, and not much longer.
func TestAPauseLastsAsLongAsTheProviderSaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &provider{takes: 100 * time.Millisecond}
		p.failure.Store(&push.Error{
			Class: push.Throttled, Code: "429", RetryAfter: 3 * time.Second, Concerns: push.ConcernsEverybody,
		})
		g := newGate(p, func(c *gate.Config) { oneHost(c); c.InFlight = 1000 })
		_ = g.Send(t.Context(), to("bad"))
		states := g.States()
		if len(states) != 1 || time.Until(states[0].PausedUntil) != 3*time.Second || states[0].Breaker != "closed" {
			t.Errorf("the states are %v", states)
		}
		begin := time.Now()
		var all sync.WaitGroup
		var longest sync.Map
		for i := range 300 {
			all.Go(func() {
				for {
					failure := push.Classify(g.Send(t.Context(), to("good")))
					if failure == nil {
						longest.Store(i, time.Since(begin))
						return
					}
					sleep(failure.RetryAfter)
				}
			})
		}
		all.Wait()
		longest.Range(func(_, took any) bool {
			if took, ok := took.(time.Duration); !ok || took < 3*time.Second || took > 8*time.Second {
				t.Errorf("one went out after %s, want between 3 s and 8 s", took)
				return false
			}
			return true
		})
	})
}

// Deliveries that were under way when the provider named a time do not end the pause.
func TestOldResponsesDoNotEndAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &provider{takes: 2 * time.Second}
		p.failure.Store(&push.Error{
			Class: push.Throttled, Code: "429", RetryAfter: 20 * time.Second, Concerns: push.ConcernsEverybody,
		})
		g := newGate(p, func(c *gate.Config) { oneHost(c); c.InFlight = 320 })
		var both sync.WaitGroup
		both.Go(func() { _ = g.Send(t.Context(), to("bad")) })
		sleep(time.Second)
		both.Go(func() { _ = g.Send(t.Context(), to("good")) })
		both.Wait()
		if got := code(g.Send(t.Context(), to("good"))); got != gate.CodePaused {
			t.Errorf("after a delivery that was under way: %q", got)
		}
	})
}

// Nor do they shorten it: the time that the provider named stays, whatever it says to those that were under way.
func TestOldResponsesDoNotShortenAPause(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]push.Error{
		"a shorter time":      {Class: push.Throttled, Code: "429", RetryAfter: time.Minute, Concerns: push.ConcernsEverybody},
		"no time":             {Class: push.Throttled, Code: "429", Concerns: push.ConcernsEverybody},
		"refused credentials": {Class: push.CredentialsRefused, Code: "401", Concerns: push.ConcernsEverybody},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &provider{takes: 2 * time.Second}
				p.failure.Store(&push.Error{
					Class: push.Throttled, Code: "429", RetryAfter: time.Hour, Concerns: push.ConcernsEverybody,
				})
				g := newGate(p, oneHost)
				var both sync.WaitGroup
				both.Go(func() { _ = g.Send(t.Context(), to("bad1")) })
				sleep(time.Second)
				both.Go(func() { _ = g.Send(t.Context(), to("bad2")) })
				sleep(1500 * time.Millisecond)
				p.failure.Store(&second)
				both.Wait()
				sleep(59 * time.Minute)
				if got := code(g.Send(t.Context(), to("good"))); got != gate.CodePaused {
					t.Errorf("after 59 of the 60 minutes: %q", got)
				}
				sleep(2 * time.Minute)
				if got := code(g.Send(t.Context(), to("good"))); got != "" {
					t.Errorf("after the pause: %q", got)
				}
			})
		})
	}
}

// Any response that is not the same refusal ends a pause, not only a delivery.
func TestAnySignOfLifeEndsAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &provider{}
		p.failure.Store(&push.Error{
			Class: push.CredentialsRefused, Code: "401", Concerns: push.ConcernsEverybody,
		})
		g := newGate(p, oneHost)
		_ = g.Send(t.Context(), to("bad"))
		sleep(time.Minute)
		p.failure.Store(&push.Error{Class: push.TargetGone, Code: "410", Concerns: push.ConcernsTarget})
		for range 3 {
			if got := code(g.Send(t.Context(), to("bad"))); got != "410" {
				t.Errorf("gives %q", got)
			}
		}
	})
}

// A refusal that concerns its target says nothing against the host, whatever its class.
func TestWhatConcernsTheTargetDoesNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	p := &provider{}
	p.failure.Store(&push.Error{Class: push.Transient, Code: "450", Concerns: push.ConcernsTarget})
	g := newGate(p, oneHost)
	for i := range 100 {
		if got := code(g.Send(t.Context(), to(fmt.Sprint("bad", i)))); got != "450" {
			t.Fatalf("gives %q", got)
		}
	}
}

// A target that asks to slow down is left alone for as long as it says. What else is sent to it waits, since its slots
// come back.
func TestATargetThatAsksToSlowDownIsLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &provider{}
		p.failure.Store(&push.Error{Class: push.Throttled, Code: "429", RetryAfter: time.Minute})
		g := newGate(p, oneHost)
		for range 61 {
			for range 20 {
				_ = g.Send(t.Context(), to("bad"))
			}
			if err := g.Send(t.Context(), to("good")); err != nil {
				t.Fatalf("another target: %v", err)
			}
			sleep(time.Second)
		}
		if n := p.called("bad"); n != 2 {
			t.Errorf("called %d times in a minute, want twice", n)
		}
	})
}

// A host that asks to slow down is called by fewer at once, down to one, and is not taken for dead.
func TestAHostThatAsksToSlowDownIsCalledByFewer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &limited{most: 5}
		g := gate.New(p, gate.Config{Limiter: nil, InFlight: 96, Log: slog.New(slog.DiscardHandler)})
		var all sync.WaitGroup
		for i := range 600 {
			all.Go(func() {
				for {
					failure := push.Classify(g.Send(t.Context(), to(fmt.Sprint(i))))
					if failure == nil {
						return
					}
					sleep(max(failure.RetryAfter, time.Second))
				}
			})
		}
		all.Wait()
		if p.refused > 200 {
			t.Errorf("600 deliveries to a host that takes 5 at once were refused %d times", p.refused)
		}
	})
}

// limited takes some calls at once, and refuses the others.
type limited struct {
	push.Checker
	most int

	mu           sync.Mutex
	now, refused int
}

func (l *limited) Send(context.Context, push.Message) error {
	l.mu.Lock()
	if l.now >= l.most {
		l.refused++
		l.mu.Unlock()
		return &push.Error{Class: push.Throttled, Code: "421", Concerns: push.ConcernsHost}
	}
	l.now++
	l.mu.Unlock()
	sleep(100 * time.Millisecond)
	l.mu.Lock()
	l.now--
	l.mu.Unlock()
	return nil
}
