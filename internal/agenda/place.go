package agenda

import (
	"cmp"
	"math"
	"slices"

	"github.com/pacer-notify/pacer/internal/notification"
)

// band is how far apart the places of two priorities are, as in agenda.lua.
const band = 1 << 51

// priority is that of what stands at a place.
func (s standing) priority() notification.Priority { return notification.Priority(s.place/band) + 1 }

// standing is so many notifications that stand in a backlog from a place on, or one that is asked for.
type standing struct {
	place   int64
	count   int
	channel string // empty when it is not known
	asked   *asked
	// unread says that their places and channels are not known, but that they stand before another place, and behind so
	// many others at the first one.
	unread bool
	until  int64
	skip   int
}

// cut is a place in a backlog, and how many stand before it.
type cut struct {
	standing

	before int
	waits  bool // what is there is in the backlog
	leaves bool // and is left out, as another replaces it
}

// queueOf makes a queue of what is known of a backlog: how many there are of each priority, the first of it, and where
// those stand that are asked for. Of two cuts at one place, that of what leaves it comes last.
func queueOf(counts [4]int, first []standing, cuts []cut) []standing {
	size := 0
	for i, count := range counts {
		cuts = append(cuts, cut{standing: standing{place: int64(i) * band}, before: size})
		size += count
	}
	for i, s := range first {
		if !slices.ContainsFunc(cuts, func(c cut) bool { return (c.asked != nil || c.leaves) && c.place == s.place }) {
			cuts = append(cuts, cut{standing: s, before: i, waits: true})
		}
	}
	slices.SortStableFunc(cuts, func(a, b cut) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.before, b.before))
	})
	cuts = append(cuts, cut{before: size, standing: standing{place: math.MaxInt64}})
	var queue []standing
	known := 0 // how many that wait stand at the present place
	for i, c := range cuts[:len(cuts)-1] {
		if i > 0 && c.place != cuts[i-1].place {
			known = 0
		}
		between := cuts[i+1].before - c.before
		if c.waits {
			between, known = between-1, known+1
		}
		if c.asked != nil || c.waits && !c.leaves {
			queue = append(queue, c.standing)
		}
		if between > 0 {
			queue = append(queue,
				standing{place: c.place, count: between, unread: true, until: cuts[i+1].place, skip: known})
		}
	}
	return queue
}

// withRest is what was read of those whose places were not known, and behind it the rest of them. Those that were not
// found have gone meanwhile.
func withRest(read []standing, unread standing) []standing {
	rest := unread.count - len(read)
	if len(read) < readBatch || rest <= 0 {
		return read
	}
	last := read[len(read)-1]
	for i := len(read) - 1; i >= 0 && read[i].place == last.place; i-- {
		last.skip++
	}
	if last.place == unread.place {
		last.skip += unread.skip
	}
	last.count, last.channel, last.unread, last.until = rest, "", true, unread.until
	return append(read, last)
}
