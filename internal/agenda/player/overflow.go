package player

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
)

const (
	// overflowEnds is how many the ladders end in one step, overflowRead how many are looked at for one rung. Scripts
	// have the same bounds.
	overflowEnds = 100
	overflowRead = 1000
)

// offLadder is the least urgent priority for which no ladder holds: what bypasses, and what is exempt from closed
// intervals.
func (s *Settings) offLadder() notification.Priority { return max(s.BypassFrom, s.ExemptFrom) }

// LadderFor writes, for a script, the rungs that judge one of a priority as it joins its backlog, after the least
// urgent priority that no ladder holds for: "1 5 replace,200 refuse". It is empty when none does.
func (s *Settings) LadderFor(p notification.Priority) string {
	if p.AtLeast(s.offLadder()) {
		return ""
	}
	return s.ladder(func(r notification.Rung) int64 { return int64(r.Waiting) })
}

// WaitLadder is the same of the rungs that judge what waits, in µs.
func (s *Settings) WaitLadder() string {
	return s.ladder(func(r notification.Rung) int64 { return r.Wait.Microseconds() })
}

// ladder writes the rungs that have a number.
func (s *Settings) ladder(number func(notification.Rung) int64) string {
	var rungs []string
	for _, r := range s.Overflow {
		if n := number(r); n > 0 {
			rungs = append(rungs, strconv.FormatInt(n, 10)+" "+string(s.effectOf(r)))
		}
	}
	if len(rungs) == 0 {
		return ""
	}
	return strconv.Itoa(int(s.offLadder())) + " " + strings.Join(rungs, ",")
}

// effectOf is what a rung does. What goes as digests anyway needs none that says so.
func (s *Settings) effectOf(r notification.Rung) notification.OverflowAction {
	if r.Then == notification.OverflowDigest && (s.Digest == nil || !s.Digest.Bundles) {
		return notification.OverflowKeep
	}
	return r.Then
}

// ladder is a backlog as the overflow ladder of its category sees it.
type ladder struct{ *Backlog }

// overflows judges one that is about to join its backlog by the ladder of its category, and reports whether it does
// not: it is refused, and has no status, or it has ended. One that takes the place of another adds nothing, and is not
// judged.
func (b ladder) overflows(n *Note) bool {
	a := b.agenda
	if n.Priority.AtLeast(b.settings.offLadder()) || n.NotBefore > a.now || a.superseded(n) {
		return false
	}
	if earlier := a.keyed[n.collapseName()]; n.CollapseKey != "" && earlier != nil &&
		earlier.Status == notification.StatusQueued {
		return false
	}
	for r := range b.settings.Overflow.Holding(b.size()) {
		if r.Then.Grows() {
			b.bundles(b.settings.effectOf(r))
		} else if out, decided := b.judge(r, n); decided {
			return out
		}
	}
	return false
}

// size is how many wait in it.
func (b *Backlog) size() int { return b.living() + b.unread }

// judge does what a rung says because a notification comes. It reports whether that one does not join the backlog, and
// whether the rung had anything to do.
func (b ladder) judge(r notification.Rung, n *Note) (out, decided bool) {
	a := b.agenda
	switch r.Then {
	case notification.OverflowRefuse:
		if n.Probe { // it is asked when it would go if it was accepted
			return false, true
		}
		n.Status, n.Reason = "", notification.ReasonOverflow
		a.cfg.Refused(n)
		return true, true
	case notification.OverflowDropNew:
		a.end(n, notification.StatusExpired, notification.ReasonOverflow)
		return true, true
	case notification.OverflowDropOldest:
		for b.size() >= r.Waiting && a.overflowed < overflowEnds && b.unread == 0 {
			if !b.dropOldest(n.Priority) {
				a.end(n, notification.StatusExpired, notification.ReasonOverflow)
				return true, true
			}
		}
		return false, true
	case notification.OverflowReplace:
		return b.replaceOlder(n)
	default: // the others let the backlog grow
	}
	return false, true
}

// overflow ends one that waits.
func (b ladder) overflow(n *Note, status notification.Status) {
	b.agenda.overflowed++
	b.agenda.leave(n)
	b.agenda.end(n, status, notification.ReasonOverflow)
}

// dropOldest ends the first of the least urgent, unless that is more urgent than a priority. Then it returns false.
func (b ladder) dropOldest(p notification.Priority) bool {
	i := len(b.notes) - 1
	for i > 0 && b.notes[i-1].Priority == b.notes[i].Priority {
		i--
	}
	if i < 0 || b.notes[i].Priority < p {
		return false
	}
	b.overflow(b.notes[i], notification.StatusExpired)
	return true
}

// replaceOlder ends those without a collapse key, and that carry no frozen digest, that are older than the newest of
// them, and not more urgent. One that comes may be the newest, or not. It reports whether that one ended, and whether
// anything did.
func (b ladder) replaceOlder(comes *Note) (out, decided bool) {
	var keyless []*Note
	for _, n := range b.notes[:min(len(b.notes), overflowRead)] {
		if n.CollapseKey == "" && !n.frozen && !n.Priority.AtLeast(b.settings.offLadder()) {
			keyless = append(keyless, n)
		}
	}
	if comes != nil && comes.CollapseKey == "" {
		keyless = append(keyless, comes)
	}
	var newest *Note
	for _, n := range keyless {
		if newest == nil || n.Arrival > newest.Arrival {
			newest = n
		}
	}
	for _, n := range keyless {
		switch {
		case n == newest || n.Priority < newest.Priority || b.agenda.overflowed >= overflowEnds:
			continue
		case n == comes:
			b.agenda.end(n, notification.StatusReplaced, notification.ReasonOverflow)
			out = true
		default:
			b.overflow(n, notification.StatusReplaced)
		}
		decided = true
	}
	return out, decided
}

// overflowFirst does what the ladder says of the first, whose slot is so far away, and reports whether that is to be
// decided anew: something ended, or it goes as digests from now on.
func (b ladder) overflowFirst(first *Note, distance time.Duration) bool {
	if first.Priority.AtLeast(b.settings.offLadder()) {
		return false
	}
	grows := time.Duration(0)
	for _, r := range b.settings.Overflow {
		if r.Wait <= grows || distance <= r.Wait {
			continue
		}
		switch effect := b.settings.effectOf(r); effect {
		case notification.OverflowKeep, notification.OverflowDigest:
			if grows = r.Wait; b.bundles(effect) {
				return true
			}
		case notification.OverflowReplace:
			if _, decided := b.replaceOlder(nil); decided {
				return true
			}
		default:
			b.overflow(first, notification.StatusExpired)
			return true
		}
	}
	return false
}

// shorten does what the ladder says of those that the limits can't let go in time after the first. It returns how many
// may be in the backlog before it has something to do, and false when it is to be decided anew: the first has ended, or
// it goes as digests from now on.
func (b ladder) shorten() (bounded int, ok bool) {
	first, bounded, grows := b.notes[0], math.MaxInt, time.Duration(0)
	for _, r := range b.settings.Overflow {
		if r.Wait <= grows {
			continue
		}
		effect, most := b.settings.effectOf(r), b.most(b.agenda.now, r.Wait, b.atOnce())
		switch {
		case !effect.Grows():
			bounded = min(bounded, most)
			b.cut(r, most)
		case b.size() > most:
			if grows = r.Wait; b.bundles(effect) {
				return bounded, false
			}
		case effect == notification.OverflowDigest && !b.bundled:
			bounded = min(bounded, most)
		}
	}
	return bounded, len(b.notes) > 0 && b.notes[0] == first
}

// bundles has the backlog go as digests, if a rung says so, and reports whether it did not before.
func (b ladder) bundles(effect notification.OverflowAction) bool {
	was := b.bundled
	b.bundled = was || effect == notification.OverflowDigest
	return b.bundled != was
}

// atOnce is how many of it go as one at most, as it stands.
func (b ladder) atOnce() int {
	if d := b.settings.Digest; d != nil && d.Bundles && !b.bundled && (d.ByLadder || !b.first.by.Closed) {
		return 1
	}
	return b.settings.atOnce()
}

// cut does what a rung says until no more are in the backlog than can go in time.
func (b ladder) cut(r notification.Rung, most int) {
	off := b.settings.offLadder()
	for did := true; did && b.size() > most; {
		last := b.notes[len(b.notes)-1]
		switch r.Then {
		case notification.OverflowDropNew:
			if did = !last.Priority.AtLeast(off); did && b.unread > 0 {
				b.unread-- // the last are not read
			} else if did {
				b.overflow(last, notification.StatusExpired)
			}
		case notification.OverflowDropOldest:
			did = b.unread == 0 && b.dropOldest(off+1)
		default:
			_, _ = b.replaceOlder(nil)
			did = false
		}
	}
}
