package redis

import (
	"cmp"
	"context"
	"slices"
	"time"
	"unique"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/maintenance"
	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// passMost is how many admissions a pass over the notifications keeps; while it goes on, twice as many.
const passMost = 80_000

// evidence is what the checker of the limits reads.
type evidence struct{ agendas *agenda.Agendas }

// Admissions implements [invariant.Source]. It finds only a part of the admissions: Redis keeps the latest attempt of a
// notification, until a day after the notification has ended. It keeps them in no order, so each pass over all of them
// takes the first ones, in order, behind those of the pass before.
func (s *evidence) Admissions(ctx context.Context, after, until throttle.Micros,
	window func(userID string) time.Duration, do func(invariant.Admission) error,
) error {
	counts := func(n *maintenance.Known) bool {
		return n.Status == notification.StatusDelivered && !n.Refunded && n.AdmittedAt <= until &&
			n.AdmittedAt > throttle.MicrosOf(after.Time().Add(-window(n.UserID)))
	}
	partitions := s.agendas.Partitions()
	p := pass{until: placed{partition: partitions}}
	for more := true; more; {
		err := maintenance.Of(s.agendas).EachKnown(ctx, p.covers, func(n maintenance.Known) error {
			if counts(&n) {
				p.add(&n)
			}
			return nil
		})
		if err != nil {
			return err
		}
		p.cut()
		for i := range p.first {
			if err := do(p.first[i].Admission); err != nil {
				return err
			}
		}
		more = p.next(partitions)
	}
	return nil
}

// placed is an admission with its place in the order of a pass: by partition, user, moment and id. Without a user it is
// a place before all of its partition.
type placed struct {
	invariant.Admission
	partition int
}

func (a *placed) compare(b *placed) int {
	return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.UserID, b.UserID), cmp.Compare(a.At, b.At),
		cmp.Compare(a.ID, b.ID))
}

// pass takes the first admissions behind a place, in whatever order they come.
type pass struct {
	// from is the last of the pass before, until the last that this one may keep.
	from, until placed
	first       []placed
}

// covers reports whether a partition may hold some of them.
func (p *pass) covers(partition int) bool {
	return partition >= p.from.partition &&
		(partition < p.until.partition || partition == p.until.partition && p.until.UserID != "")
}

// add takes one, if it is among the first. Texts that many have are kept once.
func (p *pass) add(n *maintenance.Known) {
	same := func(text string) string { return unique.Make(text).Value() }
	one := placed{partition: n.Partition, Admission: invariant.Admission{
		ID: n.ID, UserID: same(n.UserID), Category: same(n.Category), Channel: same(n.Channel), At: n.AdmittedAt,
		Priority: notification.Priority(n.Priority), ExpiresAt: n.ExpiresAt,
		Version: same(n.Basis.PolicyVersion), Zone: same(n.Basis.Zone),
	}}
	if one.compare(&p.from) <= 0 || one.compare(&p.until) > 0 {
		return
	}
	if p.first = append(p.first, one); len(p.first) == 2*passMost {
		p.cut()
	}
}

// cut puts them in order, each once, and leaves those that do not fit in to the next pass.
func (p *pass) cut() {
	slices.SortFunc(p.first, func(a, b placed) int { return a.compare(&b) })
	p.first = slices.CompactFunc(p.first, func(a, b placed) bool { return a.compare(&b) == 0 })
	if len(p.first) > passMost {
		clear(p.first[passMost:])
		p.first = p.first[:passMost]
		p.until = p.first[passMost-1]
	}
}

// next begins the next pass, over about as many partitions as this one has come through. It returns false when this one
// was the last.
func (p *pass) next(partitions int) bool {
	through := p.until.partition - p.from.partition
	more := p.until.partition < partitions
	p.from, p.first = p.until, p.first[:0]
	p.until = placed{partition: min(partitions, p.from.partition+through+1)}
	return more
}

// EachOpen implements [invariant.Source].
func (s *evidence) EachOpen(ctx context.Context, before time.Time, do func(invariant.Open) error) error {
	everywhere := func(int) bool { return true }
	return maintenance.Of(s.agendas).EachKnown(ctx, everywhere, func(n maintenance.Known) error {
		if n.Status.Ended() || !n.AcceptedAt.Before(before) {
			return nil
		}
		o := invariant.Open{
			ID: n.ID, UserID: n.UserID, Category: n.Category, Channel: n.Channel, Since: n.AcceptedAt,
			ExpiresAt: n.ExpiresAt,
		}
		if n.SendAt.After(o.Since) {
			o.Since = n.SendAt
		}
		return do(o)
	})
}
