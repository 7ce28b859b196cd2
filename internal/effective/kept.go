package effective

import (
	"sync"
	"time"
)

const (
	// keptFor is for how long what was worked out is used.
	keptFor = time.Hour
	// keptMost is how many names have theirs kept.
	keptMost = 10_000
)

// kept keeps what was worked out for a name, such as a time zone, until it has to be worked out again. The zero value
// is empty.
type kept[K comparable, V any] struct {
	mu    sync.Mutex
	known map[K]keptUntil[V]
}

// keptUntil is what holds until a moment.
type keptUntil[V any] struct {
	value V
	until time.Time
}

// get returns what is kept for a name; false when it has to be worked out. The clock may have been set back since.
func (k *kept[K, V]) get(name K, now time.Time) (value V, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found, ok := k.known[name]
	return found.value, ok && now.Before(found.until) && found.until.Sub(now) <= keptFor
}

// put keeps what was worked out at a moment.
func (k *kept[K, V]) put(name K, now time.Time, value V) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil {
		k.known = map[K]keptUntil[V]{}
	}
	if len(k.known) >= keptMost {
		for other := range k.known { // whichever: it is worked out again
			delete(k.known, other)
			break
		}
	}
	k.known[name] = keptUntil[V]{value, now.Add(keptFor)}
}
