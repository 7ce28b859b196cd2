package policy

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

const day = 24 * time.Hour

// ParseDuration reads a duration as [time.ParseDuration] does, and knows the unit d for days of 24 hours besides: 1d,
// 1d12h, 0.5d. A fraction of a day is exact to 24 nanoseconds.
func ParseDuration(text string) (time.Duration, error) {
	value, err := parseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration such as 500ms, 3s, 1m, 24h or 1d", text)
	}
	return value, nil
}

func parseDuration(text string) (time.Duration, error) {
	if !strings.Contains(text, "d") {
		return time.ParseDuration(text)
	}
	if unsigned, negative := strings.CutPrefix(text, "-"); negative {
		sum, err := sumTerms(unsigned)
		return -sum, err
	}
	return sumTerms(strings.TrimPrefix(text, "+"))
}

// errDuration is replaced by a sentence that shows the text.
var errDuration = errors.New("not a duration")

// sumTerms adds up an unsigned duration: what stands before each d in days, all else by the standard library.
func sumTerms(text string) (time.Duration, error) {
	var sum time.Duration
	for text != "" {
		term, rest := cutTerm(text)
		value, err := parseTerm(term)
		if err != nil || value > math.MaxInt64-sum {
			return 0, errDuration
		}
		sum += value
		text = rest
	}
	return sum, nil
}

// cutTerm splits off the first number with its unit.
func cutTerm(text string) (term, rest string) {
	isNumber := func(c byte) bool { return c >= '0' && c <= '9' || c == '.' }
	i := 0
	for i < len(text) && isNumber(text[i]) {
		i++
	}
	for i < len(text) && !isNumber(text[i]) {
		i++
	}
	return text[:i], text[i:]
}

func parseTerm(term string) (time.Duration, error) {
	number, inDays := strings.CutSuffix(term, "d")
	if term == "0" || strings.ContainsAny(number, "+-") {
		return 0, errDuration // right for a whole duration, not for a part of one
	}
	if !inDays {
		return time.ParseDuration(term)
	}
	hours, err := time.ParseDuration(number + "h")
	if err != nil || hours > math.MaxInt64/(day/time.Hour) {
		return 0, errDuration
	}
	return hours * (day / time.Hour), nil
}
