package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Notification is a notification to send. Only UserID is required.
type Notification struct {
	// ID has 1 to 64 of A-Z a-z 0-9 . _ : -. The same id twice is one notification.
	ID string `json:"id,omitempty"`
	// UserID is the user whom it is for, and whose limits count.
	UserID string `json:"user_id"`
	// Category of the policy. Defaults to "default".
	Category string `json:"category,omitempty"`
	// Channel is the channel that it is sent over, such as "fcm", or "fcm:shop" where a kind has senders with names.
	// Defaults to "webhook".
	Channel string `json:"channel,omitempty"`
	// To is the target: a webhook's URL, a device token, a subscription, an address or a number. Without it, the
	// notification goes to the user's devices on the channel.
	To    string `json:"to,omitempty"`
	Title string `json:"title,omitempty"`
	Body  string `json:"body,omitempty"`
	// Data is a JSON object.
	Data json.RawMessage `json:"data,omitempty"`
	// Priority is critical, high, normal or low. Defaults to normal.
	Priority string `json:"priority,omitempty"`
	// SendAt and ExpiresAt say when it may be sent: not before the one, and not after the other.
	SendAt    time.Time `json:"send_at,omitzero"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// MaxWait refuses it when it could not go within this time, such as "30s". [EnqueueTx] does not know it.
	MaxWait string `json:"max_wait,omitempty"`
	// CollapseKey replaces a waiting notification with the same user, category and key.
	CollapseKey string `json:"collapse_key,omitempty"`
	// GroupKey names what a notification belongs to, such as an order, for whoever commands all of the user's together.
	GroupKey string `json:"group_key,omitempty"`
	// FCM and those that follow are JSON objects in the format of a channel's provider. They are laid over the message
	// that is made from title, body and data. Only the one for the kind of the notification's own channel may be set.
	FCM     json.RawMessage `json:"fcm,omitempty"`
	APNs    json.RawMessage `json:"apns,omitempty"`
	WebPush json.RawMessage `json:"webpush,omitempty"`
	Email   json.RawMessage `json:"email,omitempty"`
	Ntfy    json.RawMessage `json:"ntfy,omitempty"`
	Slack   json.RawMessage `json:"slack,omitempty"`
	Teams   json.RawMessage `json:"teams,omitempty"`
	SMS     json.RawMessage `json:"sms,omitempty"`
	// Template makes title and body, which must then be empty. [EnqueueTx] knows no templates.
	Template *Template `json:"template,omitempty"`
	// IdempotencyKey makes a repeat the same notification. It is for programs that have a key but no id of their own.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
}

// Template names one of the deployment's templates and the data to fill it with.
type Template struct {
	Name string `json:"name"`
	// Locale is the preferred locale, such as de-AT. Title and body are taken from the nearest that has them.
	Locale string `json:"locale,omitempty"`
	// Data is a JSON object with the values that the template uses.
	Data json.RawMessage `json:"data,omitempty"`
}

// Change is what a waiting notification is to have from now on. What is nil or empty stays as it is.
type Change struct {
	// SendAt and ExpiresAt replace the moments; the zero time removes one.
	SendAt, ExpiresAt *time.Time
	Priority          string
}

// fields are the change in JSON.
func (c *Change) fields() map[string]any {
	fields := map[string]any{}
	for name, at := range map[string]*time.Time{"send_at": c.SendAt, "expires_at": c.ExpiresAt} {
		if at != nil {
			fields[name] = at
			if at.IsZero() {
				fields[name] = nil
			}
		}
	}
	if c.Priority != "" {
		fields["priority"] = c.Priority
	}
	return fields
}

// View is a notification and what has become of it.
type View struct {
	Notification
	CreatedAt time.Time `json:"created_at"`
	// Status is scheduled, queued, deferred, retrying or sending; or at the end delivered, failed, expired, cancelled
	// or replaced.
	Status string `json:"status"`
	// Attempts counts the attempts to deliver it, Deferrals how often it was deferred to wait for a slot.
	Attempts  int `json:"attempts"`
	Deferrals int `json:"deferrals"`
	// Reason says why it waits or ended. While it waits, DeliverAt says when it is expected to be sent; with Estimate,
	// no more than that it is not sent before.
	Reason string `json:"reason,omitempty"`
	// Detail is the reason in words, with what decides it.
	Detail    string    `json:"detail,omitempty"`
	DeliverAt time.Time `json:"deliver_at,omitzero"`
	Estimate  bool      `json:"estimate,omitempty"`
	// Partial is true when Redis did not respond in time: what waits shows as queued, and is maybe not.
	Partial bool `json:"partial,omitempty"`
	// Place is its place among what waits of its user, where 1 goes next; 0 when it does not wait for a slot. Decision
	// is in responses to requests with promise=true: now, deferred or scheduled.
	Place    int    `json:"place,omitempty"`
	Decision string `json:"decision,omitempty"`
	// DigestID is the id of the digest that it went with.
	DigestID string `json:"digest_id,omitempty"`
	// PolicyVersion is the version of the policy by which DeliverAt was found, or that admitted it last. Zone is the
	// user's time zone, where it mattered.
	PolicyVersion string `json:"policy_version,omitempty"`
	Zone          string `json:"zone,omitempty"`
	// Timeline is what happened to it, the oldest first.
	Timeline []Event `json:"timeline,omitempty"`
	// Devices reports what became of it on each of the user's devices, if it has no target of its own.
	Devices []Delivery `json:"devices,omitempty"`
}

// Delivery is what became of a notification on one device.
type Delivery struct {
	Device   string `json:"device"`
	Attempts int    `json:"attempts"`
	// Outcome is "delivered", or why the latest attempt failed. Ended is true once the device will not be tried again.
	Outcome string `json:"outcome"`
	// Reply is what the provider replied, as far as it is kept.
	Reply string    `json:"reply,omitempty"`
	Ended bool      `json:"ended"`
	At    time.Time `json:"at"`
}

// Event is one entry of a timeline.
type Event struct {
	At     time.Time `json:"at"`
	Kind   string    `json:"kind"`
	Detail string    `json:"detail,omitempty"`
	// Reply is what the provider replied, as far as it is kept.
	Reply string `json:"reply,omitempty"`
	// Attempt is the number of an attempt to deliver it; 0 for everything else. Outcome is the status that the attempt
	// led to, or crashed; "" while it is under way. Reason is the class and code of the provider's response, and TookMS
	// how many milliseconds it took; 0 when that is not known.
	Attempt int     `json:"attempt,omitempty"`
	Outcome string  `json:"outcome,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	TookMS  float64 `json:"took_ms,omitempty"`
	// PolicyVersion is the version of the policy that admitted an attempt, and Zone the time zone, where it mattered.
	PolicyVersion string `json:"policy_version,omitempty"`
	Zone          string `json:"zone,omitempty"`
}

// Result is what became of one of many notifications: its ID, or why it was refused.
type Result struct {
	// Index is that of the notification in the slice that was handed over.
	Index int    `json:"index"`
	ID    string `json:"id,omitempty"`
	// Repeated is true when it had been accepted before, with the same content.
	Repeated bool   `json:"repeated,omitempty"`
	Error    string `json:"error,omitempty"`
	// Type tells some refusals apart, as that of an [Error] does.
	Type string `json:"type,omitempty"`
}

// Err is why the notification was refused; nil when it was accepted. It may be an [ErrConflict].
func (r Result) Err() error {
	switch {
	case r.Error == "":
		return nil
	case r.Type == typeConflict:
		return fmt.Errorf("%w: %s", ErrConflict, r.Error)
	}
	return errors.New(r.Error)
}

// Window reports where a user stands with the limits of a category.
type Window struct {
	UserID        string    `json:"user_id"`
	Category      string    `json:"category"`
	Allowed       bool      `json:"allowed"`
	TimeLeftMS    int64     `json:"time_left_ms"`
	NextAllowedAt time.Time `json:"next_allowed_at"`
	Reason        string    `json:"reason"`
	Deferred      int       `json:"deferred"`
	Rules         []Rule    `json:"rules"`
}

// Rule is how far one rule is used.
type Rule struct {
	Max       int       `json:"max"`
	Per       string    `json:"per"`
	Used      int       `json:"used"`
	Remaining int       `json:"remaining"`
	FreesAt   time.Time `json:"frees_at"`
}
