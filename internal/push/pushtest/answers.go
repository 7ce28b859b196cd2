package pushtest

import (
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
)

// answerCases are what each answer means, and that it costs one call.
func answerCases(f Features) []scenario {
	cases := []scenario{
		{"DeliveredIsOneCall", func(p *probe) {
			p.deliver(p.message())
			p.wantCalls(1)
		}},
		{"IdentityIsTheSameAtEachAttempt", identityStays},
	}
	for _, kind := range f.Answers {
		switch kind {
		case Delivered, Hangs: // contextCases
		case Unreachable:
			cases = append(cases, scenario{"Unreachable", unreachable},
				scenario{"UnreachableAfterADelivery", unplugged})
		case Refused, Failing, Throttled, Gone, HangsUp:
			cases = append(cases, answered(kind.String(), Answer{Kind: kind}))
			if slices.Contains(f.Delays, kind) {
				cases = append(cases, answered(kind.String()+"SaysWhen", Answer{kind, 17 * time.Second}))
			}
		}
	}
	return cases
}

// identityStays: what lets the receiver tell repeats from new ones must not depend on the attempt.
func identityStays(p *probe) {
	m := p.message()
	for attempt := 1; attempt <= 3; attempt++ {
		m.Attempt = attempt
		m.AdmittedAt = m.AdmittedAt.Add(time.Minute)
		p.deliver(m)
	}
	p.deliver(p.message())
	calls := p.provider.received()
	if len(calls) != 4 {
		p.Fatalf("%d calls, want 4", len(calls))
	}
	first := calls[0].Identity
	if first == "" || calls[1].Identity != first || calls[2].Identity != first || calls[3].Identity == first {
		p.Errorf("identities are %q %q %q, and %q of another notification; want the same thrice, and another",
			first, calls[1].Identity, calls[2].Identity, calls[3].Identity)
	}
}

// answered sends on a new connection and on one that was used before, where some libraries try again by themselves, and
// wants the sender to work on.
func answered(name string, a Answer) scenario {
	return scenario{name, func(p *probe) {
		for range 2 {
			calls := len(p.provider.received())
			p.provider.answers(a)
			p.want(p.send(p.Context(), p.message()), a.Kind.class(), a.RetryAfter)
			p.wantCalls(calls + 1)
			p.deliver(p.message())
			p.wantCalls(calls + 2)
		}
	}}
}

func unreachable(p *probe) {
	p.Unplug()
	for range 2 {
		p.wantUnsent(p.send(p.Context(), p.message()), push.Transient)
	}
}

// unplugged: a connection that was kept is dead. That nothing was written on it can't always be known.
func unplugged(p *probe) {
	p.deliver(p.message())
	p.Unplug()
	m := p.message()
	if e := p.send(p.Context(), m); e == nil || e.Class != push.Transient && e.Class != push.Ambiguous {
		p.Errorf("got %v, want transient or ambiguous", e)
	}
	p.wantCalls(1)
}
