package effective

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// CheckPreferences refuses preferences that name a category or a channel that the deployment does not have, or limits
// that can't be read. channelFault says what is wrong with a channel's name; nothing for a configured channel. The
// error tells every fault.
func (p *Policy) CheckPreferences(preferences *notification.Preferences, channelFault func(string) string) error {
	var faults []error
	fault := func(message, field string, args ...any) {
		faults = append(faults, &notification.FieldError{Field: fmt.Sprintf(field, args...), Message: message})
	}
	for i, category := range preferences.OptOutCategories {
		if message := p.categoryFault(category); message != "" {
			fault(message, "opt_out.categories[%d]", i)
		}
	}
	for i, channel := range preferences.OptOutChannels {
		if message := channelFault(channel); message != "" {
			fault(message, "opt_out.channels[%d]", i)
		}
	}
	for category, limits := range preferences.Limits {
		if message := p.categoryFault(category); message != "" {
			fault(message, "limits.%s", category)
		}
		if message := p.ownLimitsFault(category, limits); message != "" {
			fault(message, "limits.%s", category)
		}
	}
	if text := preferences.QuietHours; len(text) > 0 {
		if message := p.ownHoursFault(text); message != "" {
			fault(message, "quiet_hours")
		}
	}
	return errors.Join(faults...)
}

// ownLimitsFault says what is wrong with a user's own limits in a category; it is empty when nothing is.
func (p *Policy) ownLimitsFault(category string, text []byte) string {
	rules, err := policy.ParseLimits(text)
	if err != nil {
		return err.Error()
	}
	algorithm := p.ofCategory(category).Plan.Algorithm
	for _, rule := range rules {
		if rule.Period > 0 && !algorithm.KeepsLog() {
			return fmt.Sprintf("only the algorithm %s can count in a %s, and the category has %s: use a duration such as 24h",
				throttle.Rolling, rule.Period, algorithm)
		}
	}
	return ""
}

// ownHoursFault says what is wrong with a user's own quiet hours; it is empty when nothing is.
func (p *Policy) ownHoursFault(text []byte) string {
	own, err := policy.ParseOwnHours(text)
	if err != nil {
		return err.Error()
	}
	current := p.Current()
	hours, names := own.Hours, slices.Sorted(maps.Keys(current.Windows))
	switch {
	case own.Window != "" && !slices.Contains(names, own.Window):
		return fmt.Sprintf("the policy has no window named %s; it has %s%s", nearest.Quote(own.Window),
			cmp.Or(nearest.List(names), "none"), nearest.Hint(own.Window, names))
	case own.Window != "":
		hours = current.Windows[own.Window]
	}
	quiet := current.QuietHours
	if quiet != nil && quiet.Required && !own.Off && calendar.NeverOpen(hours, quiet.Hours) {
		return "would never be open beside the policy's quiet hours, which are required: nothing could ever go out"
	}
	return ""
}
