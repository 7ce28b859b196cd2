package agenda

import (
	"math/rand/v2"
	"sync"
	"time"
)

// removed are the categories of which a round held something because the policy does not name them.
type removed struct {
	mu   sync.Mutex
	held map[string]heldSince
}

// heldSince says since when a category is held, and when something of it was held last.
type heldSince struct{ first, last time.Time }

const (
	// shortestHeld and longestHeld bound for how long what is held is left alone. At first this is brief, and long
	// enough for the wake-up to go back to the queue: during a roll-out, another process may know the category.
	shortestHeld, longestHeld = 3 * time.Second, time.Minute
	// heldSeen is for how long a category counts as held since something of it was.
	heldSeen = 5 * time.Minute
)

// hold notes that something of a category is held, and returns for how long to leave it alone. These waits are spread,
// so that not all wake-ups come at once.
func (r *removed) hold(category string) time.Duration {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	since := r.held[category]
	if now.Sub(since.last) > heldSeen {
		since.first = now
	}
	if since.last = now; r.held == nil {
		r.held = map[string]heldSince{}
	}
	r.held[category] = since
	wait := min(max(now.Sub(since.first)/2, shortestHeld), longestHeld)
	return wait + rand.N(wait) //nolint:gosec // spread, no secret
}

// Removed lists the categories of which this process holds something because the policy does not name them, and since
// when.
func (a *Agendas) Removed() map[string]time.Time {
	all := map[string]time.Time{}
	a.removed.mu.Lock()
	defer a.removed.mu.Unlock()
	for category, since := range a.removed.held {
		if time.Since(since.last) < heldSeen && a.cfg.Settings("", category).Removed {
			all[category] = since.first
		} else {
			delete(a.removed.held, category)
		}
	}
	return all
}
