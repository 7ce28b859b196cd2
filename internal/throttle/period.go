package throttle

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Period is a unit of the calendar that a rule counts in, instead of a window; 0 for none.
type Period uint8

// The periods. A week begins on Monday. Package calendar knows when they begin.
const (
	Day Period = iota + 1
	Week
	Month
)

// periodNames are the names in a policy, by Period.
var periodNames = [...]string{"", "day", "week", "month"}

// ParsePeriod reads day, week or month.
func ParsePeriod(text string) (Period, bool) {
	i := slices.Index(periodNames[1:], text)
	return Period(i + 1), i >= 0
}

// String is the period's name in a policy.
func (p Period) String() string { return periodNames[p] }

// Longest is how long a period is at most: clocks are set back by hours, and no more.
func (p Period) Longest() time.Duration {
	const day, hours = 24 * time.Hour, 2 * time.Hour
	return [...]time.Duration{0, day + hours, 7*day + hours, 31*day + hours}[p]
}

// Boundaries are the moments at which a user's days, weeks and months begin, in order: from the beginning of those that
// are under way on, as far as they are known.
type Boundaries [3][]Micros

// Equal reports whether both are the same.
func (b Boundaries) Equal(o Boundaries) bool {
	return slices.Equal(b[0], o[0]) && slices.Equal(b[1], o[1]) && slices.Equal(b[2], o[2])
}

// arg writes the boundaries in the form that a script reads.
func (b Boundaries) arg() string {
	var text strings.Builder
	for i, all := range b {
		if len(all) == 0 {
			continue
		}
		text.WriteString("/" + strconv.Itoa(i+1) + ":")
		for _, at := range all {
			text.WriteString(" " + strconv.FormatInt(int64(at), 10))
		}
	}
	return text.String()
}

// frees is when an admission at a moment no longer counts under a rule: when its window or its period has passed.
// Beyond the last boundary that is known it is as late as that can be.
func (r Rule) frees(at Micros, boundaries Boundaries) Micros {
	if r.Period > 0 {
		for _, begins := range boundaries[r.Period-1] {
			if begins > at {
				return begins
			}
		}
	}
	return at.Add(r.Per)
}

// countsFrom is the first moment whose admissions a rule counts at a moment.
func (r Rule) countsFrom(now Micros, boundaries Boundaries) Micros {
	from := now - r.micros() + 1
	if r.Period > 0 {
		for _, begins := range boundaries[r.Period-1] {
			if begins <= now {
				from = begins
			}
		}
	}
	return from
}
