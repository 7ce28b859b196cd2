package pushtest

import (
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
)

// responseCases check what each response means, and that it costs one call.
func responseCases(f Features) []scenario {
	cases := []scenario{
		{"DeliveredIsOneCall", func(p *probe) {
			p.deliver(p.message())
			p.wantCalls(1)
		}},
		{"IdentityIsTheSameAtEachAttempt", identityStays},
	}
	for _, kind := range f.Kinds {
		switch kind {
		case Delivered, Hangs: // contextCases
		case Unreachable:
			cases = append(cases, scenario{"Unreachable", unreachable},
				scenario{"UnreachableAfterADelivery", unplugged})
		case Refused, Failing, Throttled, Gone, HangsUp:
			cases = append(cases, responded(kind.String(), Response{Kind: kind}))
			if slices.Contains(f.Delays, kind) {
				r := Response{Kind: kind, RetryAfter: 17 * time.Second}
				cases = append(cases, responded(kind.String()+"SaysWhen", r))
			}
		}
	}
	return cases
}

// identityStays: the identity by which a receiver tells repeats from new notifications must not depend on the attempt.
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

// responded sends on a new connection and on a used one, where some libraries retry by themselves. The sender must work
// after that.
func responded(name string, r Response) scenario {
	return scenario{name, func(p *probe) {
		for range 2 {
			calls := len(p.provider.received())
			p.provider.respondWith(r)
			p.want(p.send(p.Context(), p.message()), r.Kind.class(), r.RetryAfter)
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

// unplugged: a kept connection is dead. The sender can't always know that nothing was written to it.
func unplugged(p *probe) {
	p.deliver(p.message())
	p.Unplug()
	m := p.message()
	if e := p.send(p.Context(), m); e == nil || e.Class != push.Transient && e.Class != push.Ambiguous {
		p.Errorf("got %v, want transient or ambiguous", e)
	}
	p.wantCalls(1)
}
