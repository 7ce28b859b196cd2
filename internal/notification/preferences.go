package notification

import (
	"encoding/json"
	"slices"
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
	// QuietHours replace those of the policy: {"window": "night"}, {"closed": [{"from": "22:00", "to": "08:00"}]} in
	// the form of a window in the policy file, or {"off": true}. Nil leaves them to the policy.
	QuietHours json.RawMessage
	// QuietUntil is the moment until which nothing goes out; zero for none.
	QuietUntil time.Time
	// UpdatedAt is when they were last changed; zero when never.
	UpdatedAt time.Time
}

// OptsOut reports whether the user does not want notifications of a category over a channel.
func (p *Preferences) OptsOut(category string, channel Channel) bool {
	return slices.Contains(p.OptOutCategories, category) || slices.Contains(p.OptOutChannels, string(channel))
}

// PreferencesChange says what a user wants from a change on.
type PreferencesChange struct {
	UserID string
	Preferences
	// Number orders the changes of one part of a store, in the order in which they can be seen: whoever has seen a
	// number has seen all before it.
	Number int64
}

// PreferencesPage is some of the changes in one part of a store, in order.
type PreferencesPage struct {
	Changes []PreferencesChange
	// Err says why the part could not be read; then nothing is known of its changes.
	Err error
}
