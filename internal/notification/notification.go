// Package notification is pacer's domain: what a notification is, which values its fields may have, its statuses and
// the transitions between them. It knows no wire format, no database and no queue, and imports only the standard
// library.
package notification

import (
	"encoding/json"
	"strings"
	"time"
)

// Notification is one message for one user, as its producer handed it over. Once accepted, only a [Change] changes it.
type Notification struct {
	// ID names the notification in the whole deployment: at most 64 of A-Z a-z 0-9 . _ : -
	ID string
	// IDMade is true where pacer made the ID, so that no other notification has it. Stores and fingerprints leave it
	// out.
	IDMade bool `json:"-"`
	// Dropped is true when it is known that an overflow ladder ended it as expired. Stores leave it out.
	Dropped bool `json:"-"`
	// IdempotencyKey is the key of the request that made it, and Fingerprint tells requests with one key apart. Both
	// are empty without a key.
	IdempotencyKey, Fingerprint string `json:"-"`
	// UserID names the user, to whom the limits belong: 1 to 256 bytes of UTF-8 without control characters.
	UserID string
	// Category selects the limits in the policy.
	Category string
	// Channel is the way to the user.
	Channel Channel
	// To is the target: a URL, token or address. Empty means the user's registered devices on the channel.
	To string
	// Title and Body are the text, Data an optional JSON object.
	Title, Body string
	Data        json.RawMessage
	// Override is a JSON object in the channel's own format. It is merged over what title, body and data make.
	Override json.RawMessage
	// TraceParent names the trace that the notification belongs to (W3C Trace Context); empty without tracing.
	TraceParent string
	// Priority orders what waits for the same user and category.
	Priority Priority
	// SendAt is the earliest moment of delivery; zero means at once.
	SendAt time.Time
	// ExpiresAt is the moment from which it must no longer be delivered; zero means never.
	ExpiresAt time.Time
	// CollapseKey makes a later notification with the same user, category and key replace this one while it waits.
	CollapseKey string
	// GroupKey names what it belongs to together with others of the user, such as an order.
	GroupKey string
	// Digest is what goes with it as one message, while it is sent; nil for one that goes alone.
	Digest *Digest `json:"-"`
	// CreatedAt is when it was accepted.
	CreatedAt time.Time
	// Arrival orders it among those of its user: what was accepted later has a higher one, whatever the clocks say.
	Arrival int64 `json:"-"`
}

// Channel names a way to the user: a kind of channel, such as fcm, or one of several senders of a kind, such as
// fcm:shop. The domain knows only two of the kinds.
type Channel string

// Kind is the kind of the channel: what stands before the colon of a sender's name.
func (c Channel) Kind() Channel {
	kind, _, _ := strings.Cut(string(c), ":")
	return Channel(kind)
}

const (
	// ChannelWebhook is the channel of a notification that names none.
	ChannelWebhook Channel = "webhook"
	// ChannelLog is the channel that needs no target.
	ChannelLog Channel = "log"
)

// Priority orders what waits for a user: the smaller value goes first.
type Priority uint8

// The priorities, most urgent first. The zero value is not valid, so that a forgotten priority shows.
const (
	PriorityCritical Priority = iota + 1
	PriorityHigh
	PriorityNormal
	PriorityLow
)

// priorityNames are the names in the contract.
var priorityNames = [...]string{
	PriorityCritical: "critical", PriorityHigh: "high", PriorityNormal: "normal", PriorityLow: "low",
}

// String is the priority's name in the contract.
func (p Priority) String() string {
	if p < PriorityCritical || p > PriorityLow {
		return "invalid"
	}
	return priorityNames[p]
}

// AtLeast reports whether the priority is as urgent as another, or more urgent. None is as urgent as the zero value.
func (p Priority) AtLeast(least Priority) bool { return p <= least }

// ParsePriority reads a priority's name.
func ParsePriority(name string) (Priority, bool) {
	for p := PriorityCritical; p <= PriorityLow; p++ {
		if priorityNames[p] == name {
			return p, true
		}
	}
	return 0, false
}
