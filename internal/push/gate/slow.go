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
	// time in a row doubles it, up to lastSlow.
	firstSlow, lastSlow = 100 * time.Millisecond, time.Minute
	// maxSlow is how many such targets are remembered.
	maxSlow = 10_000
)

// slow has the targets that asked to slow down. What else is sent to them waits too: their slots come back, so nothing
// else would hold it.
type slow struct {
	mu       sync.Mutex
	byTarget map[uint64]slowTarget
}

// slowTarget is how long a target is left alone.
type slowTarget struct {
	until  time.Time
	length time.Duration
}

func newSlow() *slow { return &slow{byTarget: map[uint64]slowTarget{}} }

// note notes what a target responded.
func (s *slow) note(target string, failure *push.Error) {
	hash, now := maphash.String(seed, target), time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if failure == nil || failure.Class != push.Throttled {
		delete(s.byTarget, hash)
		return
	}
	if len(s.byTarget) >= maxSlow {
		maps.DeleteFunc(s.byTarget, func(_ uint64, one slowTarget) bool { return now.After(one.until) })
	}
	if len(s.byTarget) >= maxSlow { // so many at once: those that are forgotten ask again
		clear(s.byTarget)
	}
	one := s.byTarget[hash]
	if !now.Before(one.until) { // several responses at once count as one
		one.length = min(max(2*one.length, firstSlow), lastSlow)
	}
	one.until = now.Add(max(failure.RetryAfter, one.length))
	s.byTarget[hash] = one
}

// of is how long a target is still left alone.
func (s *slow) of(target string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byTarget) == 0 {
		return 0
	}
	return max(0, time.Until(s.byTarget[maphash.String(seed, target)].until))
}
