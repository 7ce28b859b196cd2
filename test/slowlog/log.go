// Package slowlog decides, for tests, what a server noted as slow. A server measures a script or a statement by the
// clock; on a busy machine, most of that time it waited for a processor. So a Log is filled in short spans. For each
// span the kernel reports how long the server was kept from running, and the Log blames only what that cannot explain.
package slowlog

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Step is one script or statement that a server executed.
type Step struct {
	// Took is how long, by the server's clock.
	Took time.Duration
	// What are its first words.
	What string
}

// String implements fmt.Stringer.
func (s Step) String() string {
	if s.Took == 0 {
		return "none"
	}
	return fmt.Sprintf("%.1f ms: %s", float64(s.Took.Microseconds())/1000, s.What)
}

// Span is a stretch of time between two looks at a server.
type Span struct {
	From, To time.Time
	// Stalled is for how long the server was kept from running.
	Stalled time.Duration
	// Pressure is what the kernel told in it of waits for disks and memory, which it tells every two seconds.
	Pressure time.Duration
	// Away tells that it was frozen, killed or out of reach: what took long then says nothing about itself.
	Away bool
	// Steps ended in this span, or in one before it that was Away.
	Steps []Step
}

// Log is what was seen of one server. It is not safe for concurrent use.
type Log struct{ spans []Span }

// Add notes the next span.
func (l *Log) Add(s Span) { l.spans = append(l.spans, s) }

// Excuse has the log ignore what ran, even in part, between two moments.
func (l *Log) Excuse(from, to time.Time) {
	for i, s := range l.spans {
		if s.To.After(from) && s.From.Before(to) {
			l.spans[i].Away = true
		}
	}
}

// Slowest is the step that took longest, whatever the reason, of those that are not excused.
func (l *Log) Slowest() Step {
	var slowest Step
	for i, s := range l.spans {
		for _, step := range s.Steps {
			if _, away := l.stalled(i, step.Took); !away && step.Took > slowest.Took {
				slowest = step
			}
		}
	}
	return slowest
}

// Over lists the steps that took more than the limit, longest first, without those that the machine explains: if the
// steps of a span were each within the limit but for waiting, then what they took beyond it, together, is no more than
// the server waited since the first of them began. While there is more of it the longest is blamed.
func (l *Log) Over(limit time.Duration) []Step {
	var over []Step
	for i, s := range l.spans {
		slow := slices.DeleteFunc(slices.Clone(s.Steps), func(step Step) bool {
			_, away := l.stalled(i, step.Took)
			return away || step.Took <= limit
		})
		slices.SortFunc(slow, func(a, b Step) int { return cmp.Compare(b.Took, a.Took) })
		for len(slow) > 0 {
			beyond := time.Duration(0)
			for _, step := range slow {
				beyond += step.Took - limit
			}
			if stalled, _ := l.stalled(i, slow[0].Took); beyond <= stalled {
				break
			}
			over, slow = append(over, slow[0]), slow[1:]
		}
	}
	slices.SortFunc(over, func(a, b Step) int { return cmp.Compare(b.Took, a.Took) })
	return over
}

// pressureLate is how much later than they were the kernel tells of waits for disks and memory, with room.
const pressureLate = 2500 * time.Millisecond

// stalled is for how long the server was kept from running while a step ran that ended in a span, at most; away tells
// that it was away in that time.
func (l *Log) stalled(span int, took time.Duration) (stalled time.Duration, away bool) {
	began := l.spans[span].From.Add(-took)
	for i := span; i >= 0 && l.spans[i].To.After(began); i-- {
		stalled += l.spans[i].Stalled + l.spans[i].Pressure
		away = away || l.spans[i].Away
	}
	told := l.spans[span].To.Add(pressureLate)
	for i := span + 1; i < len(l.spans) && l.spans[i].From.Before(told); i++ {
		stalled += l.spans[i].Pressure
	}
	return stalled, away
}
