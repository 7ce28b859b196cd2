package chaos_test

import (
	"slices"
	"testing"
	"time"
)

// shrinkFor bounds the search for a smaller schedule, on the real clock.
const shrinkFor = 20 * time.Second

// shrink takes moves out of a schedule for as long as it goes on to break the same promise.
func shrink(t *testing.T, p *played) *played {
	t.Helper()
	return shrinkOn(t, newStage(t), p)
}

// shrinkOn does so on a stage.
func shrinkOn(t *testing.T, st *stage, p *played) *played {
	t.Helper()
	began := time.Now()
	best := playAgain(t, st, p.schedule)
	if !breaksLike(best, p) {
		p.broken = append(p.broken, "(played again, it does not: something was decided by chance)")
		return p
	}
	for size := max(1, len(best.moves)/2); size >= 1; {
		smaller := false
		for from := 0; from < len(best.moves) && time.Since(began) < shrinkFor; {
			without := slices.Delete(slices.Clone(best.moves), from, min(from+size, len(best.moves)))
			if again := playAgain(t, st, schedule{best.setting, without}); breaksLike(again, p) {
				best, smaller = again, true
				continue
			}
			from += size
		}
		if size == 1 && !smaller || time.Since(began) >= shrinkFor {
			break
		}
		size = max(1, size/2)
	}
	return best
}

// breaksLike reports whether p broke a promise in the same way as q did first.
func breaksLike(p, q *played) bool {
	want := named.ReplaceAllString(q.broken[0], "")
	return slices.ContainsFunc(p.broken, func(b string) bool { return named.ReplaceAllString(b, "") == want })
}
