package devices

import (
	"context"
	"log/slog"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// Checked keeps only devices that their channel can deliver to.
type Checked struct {
	Store
	// Check refuses a device that its channel can't deliver to.
	Check func(*notification.Device) error
}

// PutDevice checks a device and keeps it.
func (c Checked) PutDevice(ctx context.Context, device *notification.Device) error {
	if err := c.Check(device); err != nil {
		return err
	}
	return c.Store.PutDevice(ctx, device)
}

// HasActive reports whether a user has an active device on a channel.
func (c Checked) HasActive(ctx context.Context, userID string, channel notification.Channel) (bool, error) {
	all, err := c.Devices(ctx, userID)
	for _, d := range all {
		if d.Active && d.Channel == channel {
			return true, nil
		}
	}
	return false, err
}

// FanOut puts users' devices before the senders of all channels that are not local.
func FanOut(senders push.Registry, local func(notification.Channel) bool, store Store, log *slog.Logger) push.Registry {
	all := push.Registry{}
	for channel, sender := range senders {
		if !local(channel) {
			sender = NewFanout(channel, sender, store, log)
		}
		all[channel] = sender
	}
	return all
}
