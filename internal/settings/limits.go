package settings

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/internal/timespan"
)

// RequestLimit allows at most Max requests in any window of length Per.
type RequestLimit struct {
	Max int
	Per time.Duration
}

// String is the form in which it is set.
func (l RequestLimit) String() string { return fmt.Sprintf("%d/%s", l.Max, l.Per) }

// The bounds of a RequestLimit.
const (
	maxRequests  = 1_000_000
	minRequestIn = 10 * time.Millisecond
	maxRequestIn = 24 * time.Hour
)

// resolveLimits reads limits of the form 100/1s, of which no two may be over the same window.
func resolveLimits(flag string, texts []string) ([]RequestLimit, error) {
	var limits []RequestLimit
	seen := map[time.Duration]bool{}
	for _, text := range texts {
		count, per, _ := strings.Cut(strings.TrimSpace(text), "/")
		n, countErr := strconv.Atoi(count)
		window, perErr := time.ParseDuration(per)
		switch {
		case countErr != nil || perErr != nil:
			return nil, refuse(flag, "must be of the form 100/1s, is %q", text)
		case n < 1 || n > maxRequests:
			return nil, refuse(flag, "must allow between 1 and %d requests, is %q", maxRequests, text)
		case window < minRequestIn || window > maxRequestIn:
			return nil, refuse(flag, "must have a window between %s and %s, is %q", timespan.Text(minRequestIn),
				timespan.Text(maxRequestIn), text)
		case seen[window]:
			return nil, refuse(flag, "has two limits over the same window, %s", timespan.Text(window))
		}
		seen[window] = true
		limits = append(limits, RequestLimit{Max: n, Per: window})
	}
	return limits, nil
}

// RulesOf are limits as rules of the throttle.
func RulesOf(limits []RequestLimit) []throttle.Rule {
	var rules []throttle.Rule
	for _, l := range limits {
		rules = append(rules, throttle.Rule{Max: l.Max, Per: l.Per})
	}
	return rules
}
