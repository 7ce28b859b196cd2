package simulate

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/timespan"
)

// Condition is one on the figures of a report, such as chat.expired > 0.1%, for a check before a policy comes into
// force.
type Condition struct {
	text             string
	category, figure string // the category is empty for all
	sign             string
	limit            float64
	share            bool // of the arrivals, in percent
}

// conditionForm is FIGURE SIGN NUMBER, with a category before the figure, and a unit behind the number.
var conditionForm = regexp.MustCompile(`^\s*(?:(\S+)\.)?([a-z0-9_]+)\s*(<=|>=|<|>)\s*([0-9.]+)\s*(%|[a-z][a-z0-9.]*)?\s*$`)

// figures are those that a condition may name. Waits are in seconds.
var figures = map[string]func(*Figures) float64{
	"arrivals":        func(f *Figures) float64 { return float64(f.Arrivals) },
	"delivered":       func(f *Figures) float64 { return float64(f.Delivered) },
	"messages":        func(f *Figures) float64 { return float64(f.Messages) },
	"deferred":        func(f *Figures) float64 { return float64(f.Deferred) },
	"expired":         func(f *Figures) float64 { return float64(f.EndedAs("expired")) },
	"replaced":        func(f *Figures) float64 { return float64(f.EndedAs("replaced")) },
	"failed":          func(f *Figures) float64 { return float64(f.EndedAs("failed")) },
	"users_affected":  func(f *Figures) float64 { return float64(f.Users) },
	"peak_per_second": func(f *Figures) float64 { return float64(f.Peak) },
	"wait_p50":        func(f *Figures) float64 { return f.Wait.P50 },
	"wait_p95":        func(f *Figures) float64 { return f.Wait.P95 },
	"wait_p99":        func(f *Figures) float64 { return f.Wait.P99 },
	"wait_max":        func(f *Figures) float64 { return f.Wait.Max },
}

// ParseCondition reads a condition on one of these categories, or on all of them together.
func ParseCondition(text string, categories []string) (*Condition, error) {
	parts := conditionForm.FindStringSubmatch(text)
	if parts == nil {
		return nil, fmt.Errorf("%q is no condition: write [CATEGORY.]FIGURE, one of < <= > >=, and a number, such as chat.expired > 0.1%% or wait_p95 > 10m", text)
	}
	c := &Condition{text: strings.TrimSpace(text), category: parts[1], figure: parts[2], sign: parts[3]}
	if names := slices.Sorted(maps.Keys(figures)); !slices.Contains(names, c.figure) {
		return nil, fmt.Errorf("%q: there is no figure %s; there are %s%s", text, nearest.Quote(c.figure),
			strings.Join(names, ", "), nearest.Hint(c.figure, names))
	}
	if c.category != "" && !slices.Contains(categories, c.category) {
		return nil, fmt.Errorf("%q: category %s is not named in the policy; it names %s%s", text, nearest.Quote(c.category),
			nearest.List(categories), nearest.Hint(c.category, categories))
	}
	var err error
	waits := strings.HasPrefix(c.figure, "wait_")
	switch number, unit := parts[4], parts[5]; {
	case waits && unit != "" && unit != "%":
		per, fault := policy.ParseDuration(number + unit)
		c.limit, err = per.Seconds(), fault
	case waits:
		err = fmt.Errorf("a wait is compared with a duration, such as 10m")
	case unit != "" && unit != "%":
		err = fmt.Errorf("%s is no unit of %s", nearest.Quote(unit), c.figure)
	default:
		c.limit, err = strconv.ParseFloat(number, 64)
		if c.share = unit == "%"; c.share && (c.figure == "users_affected" || c.figure == "peak_per_second") {
			err = fmt.Errorf("%s is no part of the arrivals: compare it with a number", c.figure)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	return c, nil
}

// Holds reports whether the condition holds for a report, and what was found.
func (c *Condition) Holds(r *Report) (found string, holds bool) {
	f := r.All
	if c.category != "" {
		f = r.Categories[c.category]
	}
	value := figures[c.figure](&f)
	if c.share {
		value = 100 * value / float64(max(1, f.Arrivals))
	}
	found = strconv.FormatFloat(value, 'f', -1, 64)
	switch {
	case c.share:
		found = strconv.FormatFloat(value, 'f', 4, 64) + "%"
	case strings.HasPrefix(c.figure, "wait_"):
		found = timespan.Text(time.Duration(value * float64(time.Second)).Round(time.Millisecond))
	}
	holds = map[string]bool{
		"<": value < c.limit, "<=": value <= c.limit, ">": value > c.limit, ">=": value >= c.limit,
	}[c.sign]
	return c.text + ": it is " + found, holds
}
