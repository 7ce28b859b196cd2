// Package throttletest is the suite that every [throttle.Limiter] passes: the limits at their very edges, refusals that
// cost nothing, refunds, repeated requests, and that no state is left behind.
package throttletest

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// Subject is an empty limiter under test, and the clock that it runs on.
type Subject struct {
	// Limiter must be safe for concurrent use.
	Limiter throttle.Limiter
	// SetClock sets the clock. It stands still between two calls.
	SetClock func(now throttle.Micros)
	// Stored lists what the limiter keeps at the moment.
	Stored func() []Stored
}

// Stored is one key of a limiter's state.
type Stored struct {
	Name string
	// Entries is how many admissions it remembers one by one; 0 for counters.
	Entries int
	// Expires is when it is gone without any further call; 0 when it stays.
	Expires throttle.Micros
}

// Features are what a limiter can do besides that.
type Features struct {
	// Algorithm is the one to be tested.
	Algorithm throttle.Algorithm
	// Refusals is how many refused attempts the suite makes to see that they are free.
	Refusals int
	// RelativeExpiry is true when keys expire by the time that passes, even while the clock is set back.
	RelativeExpiry bool
}

// exact reports whether no window of any position holds more than Max, and whether every admission is remembered by its
// token. Both hold for a log, neither for counters.
func (f Features) exact() bool { return f.Algorithm.KeepsLog() }

// Run runs the suite. It makes a new subject for each case.
func Run(t *testing.T, f Features, subject func(tb testing.TB) Subject) {
	t.Helper()
	for _, c := range slices.Concat(limitCases(f), changeCases(f), tokenCases(), stateCases()) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(newProbe(t, subject(t), f))
		})
	}
}

// scenario is one case of the suite.
type scenario struct {
	name string
	run  func(p *probe)
}

// epoch is when the clocks of the suite start: not a whole second, nor a whole millisecond.
const epoch throttle.Micros = 1_790_000_000_123_456

// probe is a case at work: it moves the clock, asks the limiter and says what it finds wrong.
type probe struct {
	testing.TB
	Subject
	Features

	now    throttle.Micros
	tokens int
}

func newProbe(tb testing.TB, s Subject, f Features) *probe {
	tb.Helper()
	p := &probe{TB: tb, Subject: s, Features: f}
	p.at(0)
	return p
}

// at sets the clock to a time after the epoch.
func (p *probe) at(d time.Duration) { p.setNow(epoch.Add(d)) }

func (p *probe) setNow(now throttle.Micros) {
	p.now = now
	p.SetClock(now)
}

// plan has the tested algorithm.
func (p *probe) plan(rules ...throttle.Rule) throttle.Plan {
	return throttle.Plan{Algorithm: p.Algorithm, Rules: rules}
}

func limit(n int, per time.Duration) throttle.Rule { return throttle.Rule{Max: n, Per: per} }

func gap(per time.Duration) throttle.Rule {
	return throttle.Rule{Max: 1, Per: per, Kind: throttle.KindGap}
}

func userCap(n int, per time.Duration) throttle.Rule {
	return throttle.Rule{Max: n, Per: per, Kind: throttle.KindCap}
}

// namedCap is a cap over some categories, on some channels.
func namedCap(name string, n int, per time.Duration, channels string) throttle.Rule {
	return throttle.Rule{Max: n, Per: per, Kind: throttle.KindNamed, Cap: name, Channels: channels}
}

var anna = throttle.Key{User: "anna", Category: "chat"}

// token is a new one each time.
func (p *probe) token() string {
	p.tokens++
	return "token-" + strconv.Itoa(p.tokens)
}

// ask asks once, and checks what holds for every decision.
func (p *probe) ask(key throttle.Key, plan throttle.Plan, token string) throttle.Decision {
	p.Helper()
	d, err := p.Limiter.Allow(p.Context(), key, plan, token)
	if err != nil {
		p.Fatalf("allow %v: %v", key, err)
	}
	switch {
	case d.Now != p.now:
		p.Fatalf("the limiter says it is %d, it is %d", d.Now, p.now)
	case d.Allowed && (d.At > d.Now || d.Rule != throttle.NoRule):
		p.Fatalf("allowed, but %+v", d)
	case !d.Allowed && (d.At <= d.Now || d.Rule < 0 || d.Rule >= len(plan.Rules)):
		p.Fatalf("refused, but %+v", d)
	}
	return d
}

// pass wants the next n admissions to be allowed at once, and returns the token of the last.
func (p *probe) pass(key throttle.Key, plan throttle.Plan, n int) string {
	p.Helper()
	var token string
	for i := range n {
		token = p.token()
		if d := p.ask(key, plan, token); !d.Allowed || d.At != p.now {
			p.Fatalf("at %s admission %d of %d of %v: %+v", p.since(p.now), i+1, n, key, d)
		}
	}
	return token
}

// refuse wants the next admission to be refused by a rule until a moment, and the same when asked again.
func (p *probe) refuse(key throttle.Key, plan throttle.Plan, rule int, until throttle.Micros) {
	p.Helper()
	for range 2 {
		if d := p.ask(key, plan, p.token()); d.Allowed || d.At != until || d.Rule != rule {
			p.Fatalf("at %s want a refusal by rule %d until %s, got %+v until %s",
				p.since(p.now), rule, p.since(until), d, p.since(d.At))
		}
	}
}

// refused wants a refusal, whatever the reason.
func (p *probe) refused(key throttle.Key, plan throttle.Plan) throttle.Decision {
	p.Helper()
	d := p.ask(key, plan, p.token())
	if d.Allowed {
		p.Fatalf("at %s want a refusal, got %+v", p.since(p.now), d)
	}
	return d
}

// edge goes to the moment that a refusal names, and wants it to be true to the microsecond.
func (p *probe) edge(key throttle.Key, plan throttle.Plan) {
	p.Helper()
	free := p.refused(key, plan).At
	if p.now < free-1 {
		p.setNow(free - 1)
	}
	if d := p.refused(key, plan); d.At != free {
		p.Fatalf("just before %s the wait has moved to %s", p.since(free), p.since(d.At))
	}
	p.setNow(free)
	p.pass(key, plan, 1)
}

func (p *probe) peek(key throttle.Key, plan throttle.Plan) throttle.Usage {
	p.Helper()
	u, err := p.Limiter.Peek(p.Context(), key, plan)
	if err != nil {
		p.Fatalf("peek %v: %v", key, err)
	}
	return u
}

// refund wants the limiter to say whether there was an admission to take back.
func (p *probe) refund(key throttle.Key, plan throttle.Plan, token string, at throttle.Micros, want bool) {
	p.Helper()
	got, err := p.Limiter.Refund(p.Context(), key, plan, token, at)
	if err != nil {
		p.Fatalf("refund %v: %v", key, err)
	}
	if got != want {
		p.Fatalf("at %s refund of %s says %t, want %t", p.since(p.now), token, got, want)
	}
}

func (p *probe) since(m throttle.Micros) time.Duration { return m.Sub(epoch) }
