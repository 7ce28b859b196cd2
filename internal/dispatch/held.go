package dispatch

import (
	"container/heap"
	"time"
)

// held is a wake-up that this process holds.
type held struct {
	Wakeup
	at    time.Time // when the store is to be asked about it
	order uint64
}

// heldWakeups are those of a partition that this process holds: some were just pulled, the others wait for their
// moment. The one that is due first comes first; of those due at the same moment, the one that was added first.
type heldWakeups struct {
	wakeups wakeupHeap
	added   uint64
}

func (h *heldWakeups) add(w Wakeup, at time.Time) {
	h.added++
	heap.Push(&h.wakeups, held{Wakeup: w, at: at, order: h.added})
}

func (h *heldWakeups) size() int { return len(h.wakeups) }

// next is when the first is due; false when none is held.
func (h *heldWakeups) next() (time.Time, bool) {
	if len(h.wakeups) == 0 {
		return time.Time{}, false
	}
	return h.wakeups[0].at, true
}

// pop removes the first n that are due.
func (h *heldWakeups) pop(now time.Time, n int) []Wakeup {
	var due []Wakeup
	for len(due) < n && len(h.wakeups) > 0 && !h.wakeups[0].at.After(now) {
		due = append(due, heap.Pop(&h.wakeups).(held).Wakeup) //nolint:errcheck,forcetypeassert // it holds nothing else
	}
	return due
}

// popAll removes all of them, in order.
func (h *heldWakeups) popAll() []Wakeup {
	all := make([]Wakeup, 0, len(h.wakeups))
	for len(h.wakeups) > 0 {
		all = append(all, heap.Pop(&h.wakeups).(held).Wakeup) //nolint:errcheck,forcetypeassert // it holds nothing else
	}
	return all
}

// due counts those that are due, up to n.
func (h *heldWakeups) due(now time.Time, n int) int {
	return h.wakeups.due(now, 0, n)
}

// clear drops all of them.
func (h *heldWakeups) clear() { h.wakeups = nil }

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

// due counts the due ones from a node of the heap down, up to n. Below one that is not due none is.
func (w wakeupHeap) due(now time.Time, node, n int) int {
	if n <= 0 || node >= len(w) || w[node].at.After(now) {
		return 0
	}
	found := 1 + w.due(now, 2*node+1, n-1)
	return found + w.due(now, 2*node+2, n-found)
}
