package throttle

import (
	"errors"
	"fmt"
	"strconv"
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

// Kind tells where a rule comes from. A rule of any kind works alike; only its name differs, and for a cap what it
// counts.
type Kind uint8

// The kinds of rules.
const (
	KindLimit Kind = iota // a category's limit
	KindGap               // a category's minimum gap g, which is the rule (1, g)
	KindCap               // the cap over all categories of a user
)

// Rule allows at most Max admissions in any half-open window of length Per.
type Rule struct {
	Max  int
	Per  time.Duration
	Kind Kind
}

// String names the rule for people and metric labels: "limit 10/1m", "min_gap 3s", "user_cap 60/1h".
func (r Rule) String() string {
	switch r.Kind {
	case KindGap:
		return "min_gap " + timespan.Text(r.Per)
	case KindCap:
		return "user_cap " + strconv.Itoa(r.Max) + "/" + timespan.Text(r.Per)
	case KindLimit:
	}
	return "limit " + strconv.Itoa(r.Max) + "/" + timespan.Text(r.Per)
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
	if r.Kind > KindCap {
		faults = append(faults, fmt.Errorf("kind %d is unknown", r.Kind))
	}
	return errors.Join(faults...)
}

// micros is the length of the window in µs.
func (r Rule) micros() Micros { return Micros(r.Per.Microseconds()) }

// args appends the rule in the form that a script reads.
func (r Rule) args(args []any, kind int) []any {
	return append(args, strconv.Itoa(r.Max), strconv.FormatInt(r.Per.Microseconds(), 10), strconv.Itoa(kind))
}
