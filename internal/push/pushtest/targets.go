package pushtest

import (
	"github.com/pacer-notify/pacer/internal/push"
)

// targetCases check which targets CheckTarget refuses, and that the sender refuses the same.
func targetCases(f Features) []scenario {
	cases := []scenario{
		{"GoodTargets", goodTargets},
		{"SenderHidesSecrets", func(p *probe) {
			p.close() // nothing in the background may write what is read here
			if secret, found := p.leak(show(p.sender)); found {
				p.Errorf("the sender, printed, shows %q", secret)
			}
		}},
	}
	if !f.AnyTarget {
		cases = append(cases, scenario{"BadTargets", badTargets},
			scenario{"BadTargetsAreNotCalled", badTargetsUncalled})
	}
	return cases
}

func goodTargets(p *probe) {
	for _, target := range append([]string{p.Target}, p.Good...) {
		// Twice, since the result must not depend on earlier calls.
		for range 2 {
			if err := p.sender.CheckTarget(target); err != nil {
				p.Errorf("target %q is refused: %v", target, err)
			}
		}
	}
	p.wantNoContact()
}

func badTargets(p *probe) {
	if len(p.Bad) == 0 {
		p.Fatalf("the subject names no bad target")
	}
	for _, target := range p.Bad {
		err := p.sender.CheckTarget(target)
		if err == nil {
			p.Errorf("target %q is accepted", target)
		}
		if secret, found := p.leakChain(err); found {
			p.Errorf("the refusal of target %q repeats %q", target, secret)
		}
	}
	p.wantNoContact()
}

// badTargetsUncalled: a target may have become bad after it was accepted.
func badTargetsUncalled(p *probe) {
	for _, target := range p.Bad {
		m := p.message()
		m.To = target
		e := p.send(p.Context(), m)
		if e == nil || e.Class != push.Permanent && e.Class != push.TargetGone || !e.Unsent {
			p.Errorf("sent to %q: %v, want a permanent failure, unsent", target, e)
		}
	}
	p.wantNoContact()
}

func (p *probe) wantNoContact() {
	p.Helper()
	if n := p.provider.contacts.Load(); n != 0 {
		p.Errorf("the sender asked for something %d times, want never", n)
	}
}
