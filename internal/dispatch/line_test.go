package dispatch_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

// lineStep is one thing that somebody does to the line of turns; which picks the turn, of those for which it is
// possible.
type lineStep struct {
	what  string
	which int
}

var lineSteps = rapid.Custom(func(t *rapid.T) lineStep {
	steps := []string{"join", "join", "join for a token", "leave", "use", "use", "top up", "end", "release", "wait"}
	return lineStep{what: rapid.SampledFrom(steps).Draw(t, "what"), which: rapid.IntRange(0, 100).Draw(t, "which")}
})

// line is a line of turns as its users see it.
type line struct {
	dispatch.Capacity
	size             int
	waiting, granted []*dispatch.Turn // each in the order in which they joined
	inFlight         int
}

// do does a step. It returns whether all rounds must have stopped counting.
func (l *line) do(s lineStep) (nothingCounts bool) {
	switch {
	case s.what == "join":
		l.waiting = append(l.waiting, l.ForRound())
	case s.what == "join for a token":
		l.waiting = append(l.waiting, l.ForTokens(1))
	case s.what == "leave" && len(l.waiting) > 0:
		i := s.which % len(l.waiting)
		l.End(l.waiting[i])
		l.waiting = slices.Delete(l.waiting, i, i+1)
	case s.what == "use" && len(l.granted) > 0:
		if l.granted[s.which%len(l.granted)].Use() {
			l.inFlight++
		}
	case s.what == "top up" && len(l.granted) > 0:
		l.TopUp(l.granted[s.which%len(l.granted)])
	case s.what == "end" && len(l.granted) > 0:
		i := s.which % len(l.granted)
		l.End(l.granted[i])
		l.granted = slices.Delete(l.granted, i, i+1)
	case s.what == "release" && l.inFlight > 0:
		l.Release()
		l.inFlight--
	case s.what == "wait":
		// As often as it takes for all who wait to have been served: whoever is served counts for a while.
		for range len(l.waiting)/dispatch.MaxRounds + 2 {
			pass(dispatch.CountedFor)
			synctest.Wait()
		}
		nothingCounts = true
	}
	for len(l.waiting) > 0 && l.waiting[0].Granted() {
		l.granted, l.waiting = append(l.granted, l.waiting[0]), l.waiting[1:]
	}
	return nothingCounts
}

// check returns what is wrong, or nothing.
func (l *line) check(nothingCounts bool) string {
	held := 0
	for _, t := range l.granted {
		held += t.Tokens()
	}
	switch free, rounds := l.State(); {
	case slices.ContainsFunc(l.waiting, (*dispatch.Turn).Granted):
		return "a turn was granted before one that has waited longer"
	case free < 0 || free+held+l.inFlight != l.size:
		return fmt.Sprintf("%d tokens are free, %d held, %d in flight; want %d in all", free, held, l.inFlight, l.size)
	case rounds > min(len(l.granted), dispatch.MaxRounds) || nothingCounts && rounds > 0:
		return fmt.Sprintf("%d rounds count", rounds)
	case len(l.waiting) > 0 && free > 0 && rounds < dispatch.MaxRounds:
		return fmt.Sprintf("%d wait, though %d tokens are free and %d rounds count", len(l.waiting), free, rounds)
	}
	return ""
}

// Whatever happens in whatever order: who has waited longest is next, no token is lost or made, few rounds count, and
// none counts for long.
func TestTurnsComeInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(draw *rapid.T) {
		size := rapid.IntRange(1, 300).Draw(draw, "size")
		steps := rapid.SliceOfN(lineSteps, 1, 100).Draw(draw, "steps")
		wrong := ""
		synctest.Test(t, func(*testing.T) {
			l := &line{Capacity: dispatch.NewCapacity(size), size: size}
			for i, s := range steps {
				if wrong = l.check(l.do(s)); wrong != "" {
					wrong = fmt.Sprintf("after step %d: %s", i, wrong)
					return
				}
			}
		})
		if wrong != "" {
			draw.Fatal(wrong)
		}
	})
}
