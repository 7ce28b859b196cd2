package notification

import (
	"errors"
	"time"
)

// MaxDevices is how many devices a user may have.
const MaxDevices = 100

// Device is a target that a user registered. A notification without a target goes to the user's devices.
type Device struct {
	// UserID and ID name it; the id is of the same form as a notification's, and the user's own.
	UserID  string  `json:"-"`
	ID      string  `json:"-"`
	Channel Channel `json:"c"`
	// Target is what Notification.To would be.
	Target string `json:"t"`
	// Active is false once the provider has said that the target is gone. Registering it again makes it active.
	Active bool `json:"a"`
	// Reason says why it is not active, DeactivatedAt since when.
	Reason        string    `json:"r,omitempty"`
	DeactivatedAt time.Time `json:"d,omitzero"`
	// CreatedAt is when it was registered first, UpdatedAt when last.
	CreatedAt time.Time `json:"n"`
	UpdatedAt time.Time `json:"u"`
}

// Validate checks every field and returns all faults joined, each a [*FieldError]. The channel checks whether it can
// deliver to the target.
func (d *Device) Validate() error {
	return errors.Join(
		CheckUserID(d.UserID), CheckID(d.ID), required("channel", string(d.Channel)), required("to", d.Target),
		checkText("to", d.Target, MaxTargetBytes),
	)
}

// Delivery is the delivery of a notification to one of its user's devices.
type Delivery struct {
	DeviceID string
	Attempts int
	// Ended is true once the device is not tried again.
	Ended bool
	// Outcome is "delivered", or the class and code of the latest failure.
	Outcome string
	At      time.Time
	// Reply is what the provider replied to the latest failure.
	Reply string
}

// OutcomeDelivered is the outcome of a delivery that the provider accepted.
const OutcomeDelivered = "delivered"
