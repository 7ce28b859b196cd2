package channel

import (
	"errors"
	"slices"

	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// Set has the configured channels of a deployment.
type Set map[notification.Channel]Deployed

// Deployed is a configured channel, with what checks its notifications before they are accepted.
type Deployed struct {
	Descriptor
	push.Checker
}

// Names lists the channels in order.
func (s Set) Names() []string {
	names := make([]string, 0, len(s))
	for name := range s {
		names = append(names, string(name))
	}
	slices.Sort(names)
	return names
}

// MaxContent is how long a notification's content may be on a channel, in bytes. It does not tell whether the channel
// is configured; CheckDelivery does.
func (s Set) MaxContent(name notification.Channel) int { return s[name].MostContent() }

// Fault says that a channel is not configured, and which are; it is empty for a configured channel.
func (s Set) Fault(name string) string {
	if _, ok := s[notification.Channel(name)]; ok {
		return ""
	}
	names := s.Names()
	return nearest.Quote(name) + " is not a configured channel; configured are " + nearest.List(names) +
		nearest.Hint(name, names)
}

// CheckDelivery refuses a notification whose channel is not configured, or does not take its target or its content.
func (s Set) CheckDelivery(n *notification.Notification) error {
	channel, ok := s[n.Channel]
	if !ok {
		return &notification.FieldError{Field: "channel", Message: s.Fault(string(n.Channel))}
	}
	var faults []error
	if n.To == "" && !channel.Local {
		// It goes to the user's devices, whose targets have been checked.
	} else if err := channel.CheckTarget(n.To); err != nil {
		faults = append(faults, &notification.FieldError{Field: "to", Message: err.Error()})
	}
	if err := channel.CheckContent(n); err != nil {
		field := "body"
		if len(n.Override) > 0 {
			field = string(n.Channel)
		}
		faults = append(faults, &notification.FieldError{Field: field, Message: err.Error()})
	}
	return errors.Join(faults...)
}

// CheckDevice refuses a device whose channel is not configured, has no targets, or does not take the device's target.
func (s Set) CheckDevice(device *notification.Device) error {
	if err := device.Validate(); err != nil {
		return err
	}
	channel, ok := s[device.Channel]
	if !ok {
		return &notification.FieldError{Field: "channel", Message: s.Fault(string(device.Channel))}
	}
	if channel.Local {
		return &notification.FieldError{
			Field: "channel", Message: nearest.Quote(string(device.Channel)) + " has no targets, so it has no devices",
		}
	}
	if err := channel.CheckTarget(device.Target); err != nil {
		return &notification.FieldError{Field: "to", Message: err.Error()}
	}
	return nil
}
