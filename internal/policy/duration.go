package policy

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// day is the unit d.
const day = 24 * time.Hour

// ParseDuration reads a duration as [time.ParseDuration] does. It also knows the unit d, for days of 24 hours: 1d,
// 1d12h, 0.5d. A fraction of a day is exact to 24 nanoseconds.
func ParseDuration(text string) (time.Duration, error) {
	value, err := parseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration such as 500ms, 3s, 1m, 24h or 1d", text)
	}
	return value, nil
}

// parseDuration is ParseDuration, whose error replaces this one's.
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

// errDuration is replaced by ParseDuration's error, which shows the text.
var errDuration = errors.New("not a duration")

// sumTerms adds up the terms of an unsigned duration: those with the unit d itself, the others by the standard library.
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

// parseTerm reads a number with its unit.
func parseTerm(term string) (time.Duration, error) {
	number, inDays := strings.CutSuffix(term, "d")
	if term == "0" || strings.ContainsAny(number, "+-") {
		return 0, errDuration // a duration may be 0 or signed, a term of one may not
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
