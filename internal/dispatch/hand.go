package dispatch

import (
	"container/heap"
	"time"
)

// held is a wake-up that this process has in its hand.
type held struct {
	Wakeup
	// at is when it is to be asked for, slot the moment for which it was held: zero when it was just pulled.
	at, slot time.Time
	order    uint64
}

// hand is what one process has of a partition's wake-ups: those just pulled, and those held until their moment. The first to
// be asked for is the one due first; of those due together, the one that came first.
type hand struct {
	wakeups wakeupHeap
	count   uint64
}

func (h *hand) put(w Wakeup, at, slot time.Time) {
	h.count++
	heap.Push(&h.wakeups, held{Wakeup: w, at: at, slot: slot, order: h.count})
}

func (h *hand) size() int { return len(h.wakeups) }

// next gives when the first is to be asked for; false when there is none.
func (h *hand) next() (time.Time, bool) {
	if len(h.wakeups) == 0 {
		return time.Time{}, false
	}
	return h.wakeups[0].at, true
}

// take takes out those that are due, the first of them first, up to n.
func (h *hand) take(now time.Time, n int) []held {
	var due []held
	for len(due) < n && len(h.wakeups) > 0 && !h.wakeups[0].at.After(now) {
		due = append(due, heap.Pop(&h.wakeups).(held)) //nolint:errcheck,forcetypeassert // it holds nothing else
	}
	return due
}

// due tells how many are due; it stops counting at n.
func (h *hand) due(now time.Time, n int) int {
	return h.wakeups.due(now, 0, n)
}

// takeAll empties it.
func (h *hand) takeAll() []Wakeup {
	all := make([]Wakeup, 0, len(h.wakeups))
	for len(h.wakeups) > 0 {
		all = append(all, heap.Pop(&h.wakeups).(held).Wakeup) //nolint:errcheck,forcetypeassert // it holds nothing else
	}
	return all
}

// forget drops all.
func (h *hand) forget() { h.wakeups = nil }

// wakeupHeap implements [heap.Interface].
type wakeupHeap []held

func (w wakeupHeap) Len() int { return len(w) }

func (w wakeupHeap) Less(i, j int) bool {
	if w[i].at.Equal(w[j].at) {
		return w[i].order < w[j].order
	}
	return w[i].at.Before(w[j].at)
}

func (w wakeupHeap) Swap(i, j int) { w[i], w[j] = w[j], w[i] }

// Push implements [heap.Interface].
func (w *wakeupHeap) Push(x any) { *w = append(*w, x.(held)) } //nolint:errcheck,forcetypeassert // it holds nothing else

// Pop implements [heap.Interface].
func (w *wakeupHeap) Pop() any {
	last := (*w)[len(*w)-1]
	(*w)[len(*w)-1] = held{}
	*w = (*w)[:len(*w)-1]
	return last
}

// due counts what is due below a node, up to n: nothing below what is not due is.
func (w wakeupHeap) due(now time.Time, node, n int) int {
	if n <= 0 || node >= len(w) || w[node].at.After(now) {
		return 0
	}
	found := 1 + w.due(now, 2*node+1, n-1)
	return found + w.due(now, 2*node+2, n-found)
}
