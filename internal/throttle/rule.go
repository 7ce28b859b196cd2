package throttle

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Micros is a moment in microseconds since the Unix epoch, on the clock of the limiter: the Redis server's, or that of
// the in-memory limiter. Microseconds of this century fit a float64 exactly, which is what a sorted set's score is.
type Micros int64

// MicrosOf converts a time.
func MicrosOf(t time.Time) Micros { return Micros(t.UnixMicro()) }

// Time converts back.
func (m Micros) Time() time.Time { return time.UnixMicro(int64(m)) }

// Add moves the moment by d, rounded down to the microsecond.
func (m Micros) Add(d time.Duration) Micros { return m + Micros(d.Microseconds()) }

// Sub is the duration from earlier to m.
func (m Micros) Sub(earlier Micros) time.Duration { return time.Duration(m-earlier) * time.Microsecond }

// Kind tells where a rule comes from. It changes how the rule is called, not how it is judged.
type Kind uint8

// The kinds of rules.
const (
	KindLimit Kind = iota // a category's limit
	KindGap               // a category's minimum gap g, judged as the rule (1, g)
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
		return "min_gap " + shortDuration(r.Per)
	case KindCap:
		return "user_cap " + strconv.Itoa(r.Max) + "/" + shortDuration(r.Per)
	case KindLimit:
	}
	return "limit " + strconv.Itoa(r.Max) + "/" + shortDuration(r.Per)
}

// shortDuration drops the zero parts that Duration.String keeps: 1h instead of 1h0m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// The bounds of a rule.
const (
	MinPer = time.Millisecond
	MaxPer = 366 * 24 * time.Hour
	MaxMax = 1_000_000
)

// Validate refuses what no limiter can hold.
func (r Rule) Validate() error {
	var faults []error
	if r.Max < 1 || r.Max > MaxMax {
		faults = append(faults, fmt.Errorf("max must be between 1 and %d, is %d", MaxMax, r.Max))
	}
	if r.Per < MinPer || r.Per > MaxPer {
		faults = append(faults, fmt.Errorf("per must be between %s and 366d, is %s", MinPer, r.Per))
	}
	return errors.Join(faults...)
}

// Algorithm is how a category's limits are judged.
type Algorithm uint8

const (
	// Rolling remembers every admission and holds each limit exactly, in every window. The default.
	Rolling Algorithm = iota
	// FixedWindow counts in windows that begin with their first admission. It costs constant memory. Within any
	// window of length Per it may admit up to 2·Max−1: Max−1 at the end of one counting window, Max in the next.
	FixedWindow
	// TokenBucket refills Max tokens per Per, continuously. It costs constant memory. Within any window of length
	// Per it may admit up to 2·Max−1: a full bucket at once, and nearly as many from the refill.
	TokenBucket
)

var algorithmNames = [...]string{"rolling", "fixed_window", "token_bucket"}

// String is the algorithm's name in the policy file.
func (a Algorithm) String() string {
	if int(a) < len(algorithmNames) {
		return algorithmNames[a]
	}
	return "invalid"
}

// ParseAlgorithm reads an algorithm's name.
func ParseAlgorithm(name string) (Algorithm, bool) {
	for i, known := range algorithmNames {
		if known == name {
			return Algorithm(i), true
		}
	}
	return 0, false
}

// Plan is everything that limits one key (for notifications: one user's category), judged all or none.
type Plan struct {
	// Algorithm judges Rules. A gap and the cap are always exact.
	Algorithm Algorithm
	// Rules are the category's limits and, as a rule of [KindGap], its minimum gap.
	Rules []Rule
	// Cap are the rules over all categories of the user, always rolling.
	Cap []Rule
}

// All lists the rules in the order in which they are judged: the category's, then the cap's. A decision's rule index
// points into it.
func (p Plan) All() []Rule {
	all := make([]Rule, 0, len(p.Rules)+len(p.Cap))
	return append(append(all, p.Rules...), p.Cap...)
}
