package effective

import (
	"errors"
	"fmt"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
)

// CheckPreferences refuses preferences that name a category or a channel that the deployment does not have, or limits
// that can't be read. The error tells every fault.
func (p *Policy) CheckPreferences(preferences *notification.Preferences, hasChannel func(string) bool) error {
	var faults []error
	fault := func(message, field string, args ...any) {
		faults = append(faults, &notification.FieldError{Field: fmt.Sprintf(field, args...), Message: message})
	}
	for i, category := range preferences.OptOutCategories {
		if !p.HasCategory(category) {
			fault("is not named in the policy", "opt_out.categories[%d]", i)
		}
	}
	for i, channel := range preferences.OptOutChannels {
		if !hasChannel(channel) {
			fault("is not a configured channel", "opt_out.channels[%d]", i)
		}
	}
	for category, limits := range preferences.Limits {
		if !p.HasCategory(category) {
			fault("is not named in the policy", "limits.%s", category)
		}
		if _, err := policy.ParseLimits(limits); err != nil {
			fault(err.Error(), "limits.%s", category)
		}
	}
	return errors.Join(faults...)
}
