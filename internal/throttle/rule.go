package throttle

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/timespan"
)

// Micros is a moment in microseconds since the Unix epoch, on the limiter's clock: the Redis server's, or that of the
// in-memory limiter. Microseconds of this century fit exactly into a float64, such as the score in a sorted set.
type Micros int64

// MicrosOf converts a time.
func MicrosOf(t time.Time) Micros { return Micros(t.UnixMicro()) }

// Time converts back.
func (m Micros) Time() time.Time { return time.UnixMicro(int64(m)) }

// Add moves the moment by d, rounded down to the microsecond.
func (m Micros) Add(d time.Duration) Micros { return m + Micros(d.Microseconds()) }

// Sub is the duration from earlier to m.
func (m Micros) Sub(earlier Micros) time.Duration { return time.Duration(m-earlier) * time.Microsecond }

// Kind reports where a rule comes from. A rule of any kind works alike; only its name differs, and for a cap what it
// counts.
type Kind uint8

// The kinds of rules.
const (
	KindLimit Kind = iota // a category's limit
	KindGap               // a category's minimum gap g, which is the rule (1, g)
	KindCap               // the cap over all categories of a user
	KindNamed             // a cap with a name, over some categories and channels of a user
)

// Rule allows at most Max admissions in any half-open window of length Per.
type Rule struct {
	Max  int
	Per  time.Duration
	Kind Kind
	// Period makes the rule one of the calendar: at most Max within each. Per is then the longest that one can be.
	Period Period
	// Reserve is how many of Max are kept for the urgent.
	Reserve Reserve
	// Cap is the name of a named cap, without colons. Its rules count in one log. Channels are those that it counts,
	// parted by spaces; a kind of channel stands for all of its senders. Empty means all.
	Cap, Channels string
}

// CountsOn reports whether a rule counts notifications on a channel. What is on an unknown channel counts in any case,
// so that no cap is exceeded.
func (r Rule) CountsOn(channel string) bool {
	if r.Channels == "" || channel == "" {
		return true
	}
	kind, _, _ := strings.Cut(channel, ":")
	counted := strings.Fields(r.Channels)
	return slices.Contains(counted, channel) || slices.Contains(counted, kind)
}

// priorities is how many priorities there are: 1 is the most urgent.
const priorities = 4

// Reserve keeps a part of a rule's admissions for the urgent: Reserve[p-1] of them for priority p and more urgent ones.
// Those kept for several priorities add up. The zero value keeps nothing.
type Reserve [priorities - 1]int32

// sum is how many are kept in all.
func (r Reserve) sum() int {
	sum := 0
	for _, kept := range r {
		sum += int(kept)
	}
	return sum
}

// MaxFor is how many admissions in a window one of a priority sees: Max without those kept for more urgent ones.
// Priority 0 sees them all.
func (r Rule) MaxFor(priority int) int {
	seen := r.Max
	for _, kept := range r.Reserve[:max(0, min(priority-1, len(r.Reserve)))] {
		seen -= int(kept)
	}
	return seen
}

// WithMaxFor is the rule with so many admissions for each priority, the most urgent first, none of which sees more than
// the one before.
func (r Rule) WithMaxFor(seen [priorities]int) Rule {
	r.Max = seen[0]
	for i := range r.Reserve {
		r.Reserve[i] = int32(seen[i] - seen[i+1])
	}
	return r
}

// String names the rule for people and metric labels: "limit 10/1m", "min_gap 3s", "user_cap 60/1h", "cap:marketing",
// and "calendar" for a category's limit in a period.
func (r Rule) String() string {
	switch r.Kind {
	case KindGap:
		return "min_gap " + timespan.Text(r.Per)
	case KindCap:
		return "user_cap " + strconv.Itoa(r.Max) + "/" + r.Window()
	case KindNamed:
		return "cap:" + r.Cap
	case KindLimit:
	}
	if r.Period > 0 {
		return "calendar"
	}
	return "limit " + strconv.Itoa(r.Max) + "/" + r.Window()
}

// Window is the rule's per as a policy says it: a duration, or the name of a period.
func (r Rule) Window() string {
	if r.Period > 0 {
		return r.Period.String()
	}
	return timespan.Text(r.Per)
}

// The bounds of a rule.
const (
	MinPer = time.Millisecond
	MaxPer = 366 * 24 * time.Hour
	MaxMax = 1_000_000
)

// Validate returns everything that keeps a limiter from holding the rule.
func (r Rule) Validate() error {
	var faults []error
	if r.Max < 1 || r.Max > MaxMax {
		faults = append(faults, fmt.Errorf("max must be between 1 and %d, is %d", MaxMax, r.Max))
	}
	if r.Per < MinPer || r.Per > MaxPer {
		faults = append(faults, fmt.Errorf("per must be between %s and 366d, is %s", MinPer, r.Per))
	}
	if r.Per%time.Microsecond != 0 {
		faults = append(faults, fmt.Errorf("per must be whole microseconds, is %s", r.Per))
	}
	if r.Kind == KindGap && r.Max != 1 {
		faults = append(faults, fmt.Errorf("a gap is a rule with max 1, is %d", r.Max))
	}
	if int(r.Period) >= len(periodNames) || r.Period > 0 && (r.Kind == KindGap || r.Per != r.Period.Longest()) {
		faults = append(faults, fmt.Errorf("period %d of %s does not go with kind %d", r.Period, r.Per, r.Kind))
	}
	if (r.Kind == KindNamed) != (r.Cap != "") || strings.ContainsAny(r.Cap, ":/") {
		faults = append(faults, fmt.Errorf("only a named cap has a name, and its name has no colons or slashes; it is %q",
			r.Cap))
	}
	if r.Kind > KindNamed {
		faults = append(faults, fmt.Errorf("kind %d is unknown", r.Kind))
	}
	if slices.Min(r.Reserve[:]) < 0 || r.Reserve.sum() >= max(r.Max, 1) {
		faults = append(faults, fmt.Errorf("reserve must keep less than max %d in all, keeps %d", r.Max, r.Reserve.sum()))
	}
	return errors.Join(faults...)
}

// micros is the length of the window in µs.
func (r Rule) micros() Micros { return Micros(r.Per.Microseconds()) }

// args appends the rule in the form that a script reads.
func (r Rule) args(args []any, kind int) []any {
	what := strconv.Itoa(kind)
	if r.Reserve != (Reserve{}) || r.Cap != "" || r.Period > 0 {
		what = fmt.Sprintf("%d/%d/%d/%d/%d/%s/%s", kind, r.Reserve[0], r.Reserve[1], r.Reserve[2], r.Period, r.Cap,
			r.Channels)
	}
	return append(args, strconv.Itoa(r.Max), strconv.FormatInt(r.Per.Microseconds(), 10), what)
}
