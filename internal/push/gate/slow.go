package gate

import (
	"hash/maphash"
	"maps"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
)

const (
	// firstSlow is how long a target is left alone that asked to slow down and did not say for how long. Each further
	// time in a row doubles it, up to lastSlow; up to lastProbe where more calls are needed: to end all that waits for
	// it, or to find out soon that its host is back.
	firstSlow, lastSlow, lastProbe = 100 * time.Millisecond, time.Minute, time.Second
	// maxGap is how long a target is left alone at once for a minimum gap. A longer one is asked for again.
	maxGap = time.Hour
	// maxSlow is how many such targets are remembered.
	maxSlow = 10_000
)

// slow has the targets that asked to slow down, or refused tripAfter calls in a row. What else is sent to them waits
// too: their slots come back, so nothing else would hold it.
type slow struct {
	mu       sync.Mutex
	byTarget map[uint64]slowTarget
}

// slowTarget is how long a target is left alone.
type slowTarget struct {
	until   time.Time
	length  time.Duration
	refused int       // calls in a row
	since   time.Time // when tripAfter of them were refused
	trying  bool      // until then one call tries whether the next is taken
}

func newSlow() *slow { return &slow{byTarget: map[uint64]slowTarget{}} }

// refused reports whether a call's slot comes back although a provider was called. Who refuses the credentials is not
// called again for a while anyway.
func refused(failure *push.Error) bool {
	return failure != nil && !failure.Counts() && !failure.Unsent && failure.Class != push.CredentialsRefused
}

// note notes what a target responded. What does not tell whether it takes more changes nothing.
func (s *slow) note(target string, failure *push.Error) {
	if failure != nil && !refused(failure) {
		return
	}
	hash, now := maphash.String(seed, target), time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if failure == nil {
		delete(s.byTarget, hash)
		return
	}
	s.makeRoom(now)
	one := s.byTarget[hash]
	if one.refused++; one.refused == tripAfter {
		one.since = now
	}
	if failure.Class == push.Throttled || one.refused >= tripAfter {
		if one.trying || !now.Before(one.until) { // several responses at once count as one
			one.length = min(max(2*one.length, firstSlow), longest(failure))
		}
		one.until, one.trying = now.Add(max(failure.RetryAfter, one.length)), false
	}
	s.byTarget[hash] = one
}

// longest is how long a target is left alone at most that did not say for how long.
func longest(failure *push.Error) time.Duration {
	if failure.Final() || failure.Class == push.Transient && failure.Whom() == push.ConcernsHost {
		return lastProbe
	}
	return lastSlow
}

// makeRoom forgets targets when there are too many.
func (s *slow) makeRoom(now time.Time) {
	if len(s.byTarget) < maxSlow {
		return
	}
	maps.DeleteFunc(s.byTarget, func(_ uint64, one slowTarget) bool { return now.After(one.until) })
	if len(s.byTarget) > maxSlow/2 { // so many at once: those that are forgotten ask again
		clear(s.byTarget)
	}
}

// of is how long a target is still left alone. After that one call tries for all that wait, if it only ever refused.
func (s *slow) of(target string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byTarget) == 0 {
		return 0
	}
	hash := maphash.String(seed, target)
	one, now := s.byTarget[hash], time.Now()
	wait, only := one.until.Sub(now), one.refused >= tripAfter
	switch {
	case wait > 0 && only: // the longer it refuses, the less often those ask again that do not try
		return max(wait, min(now.Sub(one.since)/2, maxOpenWait))
	case wait > 0:
		return wait
	case only:
		one.until, one.trying = now.Add(one.length), true
		s.byTarget[hash] = one
	}
	return 0
}

// gapKey names what a user gets of a category at a target.
func gapKey(m push.Message) string { return m.To + "\x00" + m.Category + "\x00" + m.UserID }

// keepGap keeps the minimum gap of a category towards a target after a call that began then.
func (g *Gate) keepGap(m push.Message, began time.Time, failure *push.Error) {
	if g.cfg.MinGap == nil || !refused(failure) {
		return
	}
	gap := g.cfg.MinGap(m.Notification)
	if gap <= 0 {
		return
	}
	g.slow.mu.Lock()
	defer g.slow.mu.Unlock()
	g.slow.makeRoom(began)
	g.slow.byTarget[maphash.String(seed, gapKey(m))] = slowTarget{until: began.Add(gap)}
}

// leftAlone is how long a delivery's target is still left alone.
func (g *Gate) leftAlone(m push.Message) time.Duration {
	if wait := g.gapLeft(m); wait > 0 {
		return wait
	}
	return g.slow.of(m.To)
}

// gapLeft is how long the minimum gap towards a target still lasts, unless the policy has none by now.
func (g *Gate) gapLeft(m push.Message) time.Duration {
	if g.cfg.MinGap == nil {
		return 0
	}
	left := g.slow.of(gapKey(m))
	if left > 0 && g.cfg.MinGap(m.Notification) == 0 {
		return 0
	}
	return min(left, maxGap)
}
