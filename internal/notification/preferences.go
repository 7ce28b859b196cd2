package notification

import (
	"encoding/json"
	"time"
)

// Preferences are what a user wants. The zero value leaves everything to the policy.
type Preferences struct {
	// OptOutCategories and OptOutChannels name categories and channels whose notifications end as cancelled, with
	// reason opted_out.
	OptOutCategories, OptOutChannels []string
	// Limits replace those of the category with that name: {"limits": [{"max": 1, "per": "1h"}], "min_gap": "5m"}, as
	// in the policy file.
	Limits map[string]json.RawMessage
	// TimeZone is a name such as Europe/Vienna; empty when it is not known.
	TimeZone string
	// UpdatedAt is when they were last changed; zero when never.
	UpdatedAt time.Time
}
