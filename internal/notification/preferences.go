package notification

import (
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// Preferences are what a user wants. The zero value leaves everything to the policy. As JSON it is {}. In this form
// Redis and memory have those of a million users.
type Preferences struct {
	// OptOutCategories and OptOutChannels name categories and channels whose notifications end as cancelled, with
	// reason opted_out.
	OptOutCategories []string `json:"c,omitempty"`
	OptOutChannels   []string `json:"n,omitempty"`
	// Limits replace those of the category with that name: {"limits": [{"max": 1, "per": "1h"}], "min_gap": "5m"}, as
	// in the policy file.
	Limits map[string]json.RawMessage `json:"l,omitempty"`
	// TimeZone is a name such as Europe/Vienna; empty when it is not known.
	TimeZone string `json:"z,omitempty"`
	// QuietHours replace those of the policy: {"window": "night"}, {"closed": [{"from": "22:00", "to": "08:00"}]} in
	// the form of a window in the policy file, or {"off": true}. Nil leaves them to the policy.
	QuietHours json.RawMessage `json:"h,omitempty"`
	// QuietUntil is the moment until which nothing goes out; zero for none.
	QuietUntil time.Time `json:"q,omitzero"`
	// UpdatedAt is when they were last changed; zero when never.
	UpdatedAt time.Time `json:"-"`
	// Version is the number of this change; 0 when there was none for long. The changes of one part of a store are
	// numbered in the order in which they can be seen: whoever has seen a number has seen all before it.
	Version int64 `json:"-"`
}

// AnyVersion says that preferences are replaced whatever they are.
const AnyVersion = -1

// ErrPreferencesChanged says that a user's preferences have another version than the one that was to be replaced.
var ErrPreferencesChanged = errors.New("the preferences have changed meanwhile: get them again, and repeat the change")

// OptsOut reports whether the user does not want notifications of a category over a channel.
func (p *Preferences) OptsOut(category string, channel Channel) bool {
	return slices.Contains(p.OptOutCategories, category) || slices.Contains(p.OptOutChannels, string(channel))
}

// PreferencesChange says what a user wants from a change on.
type PreferencesChange struct {
	// UserID is empty where the store has forgotten changes, which took preferences away, up to this version.
	UserID string
	Preferences
}

// PreferencesPage is some of the changes in one part of a store, in order.
type PreferencesPage struct {
	Changes []PreferencesChange
	// Err says why the part could not be read; then nothing is known of its changes.
	Err error
}
