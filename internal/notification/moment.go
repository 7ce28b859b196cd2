package notification

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// moment is RFC 3339 as pacer and pacer.enqueue read it: small letters, a blank for the T and second 60 are legal.
// time.Parse would also take one digit for an hour, or a comma, and Postgres hour 24; neither knows every offset.
var moment = regexp.MustCompile(`^(2\d{3}-\d\d-\d\d)[Tt ]((?:[01]\d|2[0-3]):(?:[0-5]\d:[0-5]\d|59:60))(\.\d+)?` +
	`([Zz]|[+-](?:0\d|1[0-5]):[0-5]\d)$`)

// momentFaults are what is wrong with times that are often sent, in the order in which they are looked for.
var momentFaults = []struct {
	form *regexp.Regexp
	says string
}{
	{regexp.MustCompile(`^\d{4}-\d\d-\d\d$`), "it lacks the time of day"},
	{regexp.MustCompile(`^[\d-]+[Tt ][\d:.]+$`), "it lacks an offset: add Z, or one such as +01:00"},
	{regexp.MustCompile(`^[013-9]\d{3}-`), "its year must begin with a 2"},
	{regexp.MustCompile(`^\d+(\.\d+)?$`), "a number of seconds is none"},
	{moment, "there is no such day"},
}

// ParseTime reads an RFC 3339 time of this millennium. The error names the rule that the text breaks.
func ParseTime(text string) (time.Time, error) {
	if part := moment.FindStringSubmatch(text); part != nil {
		clock, beyond := part[2], time.Duration(0)
		if strings.HasSuffix(clock, "60") { // a leap second is the first of the next minute
			clock, beyond = clock[:len(clock)-2]+"59", time.Second
		}
		if t, err := time.Parse(time.RFC3339, part[1]+"T"+clock+part[3]+strings.ToUpper(part[4])); err == nil {
			return t.Add(beyond), nil
		}
	}
	fault := fmt.Sprintf("must be an RFC 3339 time, such as 2026-01-02T15:04:05Z, is %.40q", text)
	for _, of := range momentFaults {
		if of.form.MatchString(text) {
			return time.Time{}, fmt.Errorf("%s: %s", fault, of.says)
		}
	}
	return time.Time{}, errors.New(fault)
}
