package agenda_test

import (
	"math/rand/v2"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/player"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// limits are what the settings of a program have in common: the longest window, so that no log forgets what a later
// change would have it look at.
type limits struct {
	per    time.Duration
	capped []throttle.Rule
	named  [][]throttle.Rule
	// boundaries are those of rules of the calendar.
	boundaries throttle.Boundaries
}

func (p *program) randomLimits() limits {
	l := limits{per: time.Duration(10+p.rand.IntN(40)) * 100 * time.Millisecond}
	if p.rand.IntN(3) > 0 {
		l.capped = []throttle.Rule{withReserve(p.rand, throttle.Rule{
			Max: 1 + p.rand.IntN(5), Per: time.Duration(5+p.rand.IntN(40)) * 100 * time.Millisecond,
			Kind: throttle.KindCap,
		})}
	}
	for at := throttle.MicrosOf(start); len(l.boundaries[0]) < 10; {
		l.boundaries[0] = append(l.boundaries[0], at)
		at = at.Add(l.per/2 + time.Duration(p.rand.Int64N(l.per.Milliseconds()/2))*time.Millisecond)
	}
	for _, name := range []string{"a", "b"} {
		if p.rand.IntN(3) == 0 {
			l.named = append(l.named, []throttle.Rule{withReserve(p.rand, throttle.Rule{
				Max: 1 + p.rand.IntN(4), Per: time.Duration(5+p.rand.IntN(60)) * 100 * time.Millisecond,
				Kind: throttle.KindNamed, Cap: name, Channels: pick(p.rand, []string{"", "fcm", "apns fcm:shop"}),
			})})
		}
	}
	return l
}

// capByChannel has a narrow cap over one channel instead of others, and wide limits beside it.
func (l *limits) capByChannel(r *rand.Rand) {
	l.capped, l.per = nil, time.Second
	l.named = [][]throttle.Rule{{{
		Max: 1, Per: time.Duration(20+r.IntN(40)) * time.Second, Kind: throttle.KindNamed, Cap: "a", Channels: "fcm",
	}}}
}

// withReserve has a rule keep a part for the urgent, now and then.
func withReserve(r *rand.Rand, rule throttle.Rule) throttle.Rule {
	for i := range rule.Reserve {
		if left := rule.MaxFor(4) - 1; left > 0 && r.IntN(3) == 0 {
			rule.Reserve[i] = int32(1 + r.IntN(left))
		}
	}
	return rule
}

// randomSettings are settings with the limits of the program.
func (p *program) randomSettings() agenda.Settings {
	s := p.limits.settings(p.rand)
	if p.rand.IntN(3) == 0 {
		s.Plan.Closed = randomClosed(p.rand, throttle.Micros(p.model.now))
		s.Plan.Spread = time.Duration(p.rand.IntN(2)*p.rand.IntN(9000)) * time.Millisecond
		s.ExemptFrom = notification.Priority(p.rand.IntN(int(notification.PriorityLow)))
		s.Drops = s.Plan.Closed[0].From%3 == 0
	}
	if p.rand.IntN(3) == 0 {
		s.Digest = p.randomDigest()
	}
	if p.ladders != nil && p.ladders.IntN(3) > 0 {
		s.Overflow = randomLadder(p.ladders)
		if s.Digest != nil {
			s.Digest.Bundles = s.Digest.Bundles || p.ladders.IntN(2) == 0
			s.Digest.ByLadder = p.ladders.IntN(2) == 0
		}
	}
	return s
}

// randomLadder gives an overflow ladder.
func randomLadder(r *rand.Rand) notification.Ladder {
	var ladder notification.Ladder
	for range 1 + r.IntN(3) {
		rung := notification.Rung{Waiting: 1 + r.IntN(5), Then: pick(r, []notification.OverflowAction{
			notification.OverflowKeep, notification.OverflowDigest, notification.OverflowReplace,
			notification.OverflowReplace, notification.OverflowDropOldest, notification.OverflowDropOldest,
			notification.OverflowDropNew, notification.OverflowRefuse,
		})}
		if rung.Then != notification.OverflowRefuse && r.IntN(2) == 0 {
			rung.Waiting, rung.Wait = 0, time.Duration(1+r.IntN(9000))*time.Millisecond
		}
		ladder = append(ladder, rung)
	}
	return ladder
}

// randomClosed gives closed intervals, of which the first may have begun.
func randomClosed(r *rand.Rand, now throttle.Micros) throttle.Closed {
	var closed throttle.Closed
	at := now.Add(-time.Second)
	for range 1 + r.IntN(4) {
		from := at.Add(time.Duration(1+r.IntN(4000)) * time.Millisecond)
		at = from.Add(time.Duration(1+r.IntN(4000)) * time.Millisecond)
		closed = append(closed, throttle.Interval{From: from, Until: at})
	}
	return closed
}

func (l limits) settings(r *rand.Rand) agenda.Settings {
	widest := withReserve(r, throttle.Rule{Max: 1 + r.IntN(5), Per: l.per})
	if r.IntN(4) == 0 {
		widest.Period = throttle.Day
	}
	plan := throttle.Plan{Rules: []throttle.Rule{widest}, Boundaries: l.boundaries}
	s := agenda.Settings{Plan: plan, MaxDefer: 24 * time.Hour}
	if r.IntN(5) == 0 {
		s.Plan.Rules, s.Plan.Dormant = nil, []throttle.Rule{widest}
	}
	if r.IntN(3) == 0 {
		s.Plan.Rules = append(s.Plan.Rules, throttle.Rule{Max: 1 + r.IntN(2), Per: (l.per / 3).Round(time.Millisecond)})
	}
	for range r.IntN(6) / 4 {
		s.Plan.Shadow = append(s.Plan.Shadow, throttle.Rule{Max: 1 + r.IntN(3), Per: l.per / 2})
	}
	if r.IntN(3) == 0 {
		s.Plan.Rules = append(s.Plan.Rules, throttle.Rule{
			Max: 1, Per: time.Duration(1+r.IntN(900)) * time.Millisecond, Kind: throttle.KindGap,
		})
	}
	if r.IntN(4) == 0 {
		countInstead(&s.Plan, throttle.Algorithm(1+r.IntN(2)))
	}
	s.Plan.Rules = append(s.Plan.Rules, l.capped...)
	for _, rules := range l.named {
		if r.IntN(3) > 0 {
			s.Plan.Rules = append(s.Plan.Rules, rules...)
		}
	}
	s.BypassFrom = []notification.Priority{0, 0, 0, 1, 1, 2, notification.PriorityLow}[r.IntN(7)]
	if r.IntN(4) == 0 {
		s.MaxDefer = time.Duration(1+r.IntN(8000)) * time.Millisecond
	}
	return s
}

// randomDigest has what waits go as one.
func (p *program) randomDigest() *player.Digest {
	d := &player.Digest{
		MaxItems: 2 + p.rand.IntN(4), Alone: notification.Priority(p.rand.IntN(3)), Bundles: p.rand.IntN(4) == 0,
	}
	some := func() time.Duration { return time.Duration(1+p.rand.IntN(5000)) * time.Millisecond }
	switch p.rand.IntN(6) {
	case 0, 1:
		d.Wait = some()
	case 2:
		d.Extend, d.Max = some(), some()
	case 3:
		at := p.model.moment().Add(-some())
		for range 1 + p.rand.IntN(6) {
			d.Moments = append(d.Moments, at)
			at = at.Add(some())
		}
	}
	return d
}

// countInstead has the rules of a plan be counted by an algorithm that keeps no log.
func countInstead(plan *throttle.Plan, algorithm throttle.Algorithm) {
	plan.Algorithm, plan.Shadow = algorithm, nil
	for _, rules := range [][]throttle.Rule{plan.Rules, plan.Dormant} {
		for i := range rules {
			rules[i].Period, rules[i].Reserve = 0, throttle.Rule{}.Reserve
		}
	}
}
