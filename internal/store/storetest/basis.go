package storetest

import (
	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/notification"
)

// basisIsKept: each attempt keeps the basis of the settings that the request carried which granted it. It is another
// by the time when it is settled, when its lease ends, and whenever somebody looks.
func basisIsKept(p *probe) {
	n := p.accept(func(n *notification.Notification) { n.Category = "changing" })
	first := p.grant()
	if first.Basis.PolicyVersion == "" || first.Basis.Zone != "Asia/Kathmandu" {
		p.Fatalf("granted by %+v", first.Basis)
	}
	p.wantBasis(n.ID, first.Basis)
	p.settle(first, wasLost)
	p.wantBasis(n.ID, first.Basis)

	second := p.crash()
	p.wantBasis(n.ID, first.Basis, second.Basis)
	p.repairUntil("the lease ends", p.becomes(n.ID, notification.StatusQueued))
	third := p.grant()
	p.wantBasis(n.ID, first.Basis, second.Basis, third.Basis)
	p.settle(third, wasDelivered)
	if v := p.wantBasis(n.ID, first.Basis, second.Basis, third.Basis); v.Basis != third.Basis {
		p.Errorf("delivered by %+v, granted by %+v", v.Basis, third.Basis)
	}
}

// wantBasis checks by what the attempts at a notification were admitted.
func (p *probe) wantBasis(id string, want ...notification.Basis) *notification.View {
	p.Helper()
	v := p.lookUp(id)
	var got []notification.Basis
	for _, e := range v.Timeline {
		if e.Attempt != nil {
			got = append(got, e.Attempt.Basis)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		p.Errorf("basis of the attempts at %s (want -, got +):\n%s", id, diff)
	}
	return v
}
