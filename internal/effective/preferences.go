package effective

import (
	"errors"
	"fmt"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
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
		if _, err := policy.ParseLimits(limits); err != nil {
			fault(err.Error(), "limits.%s", category)
		}
	}
	return errors.Join(faults...)
}
