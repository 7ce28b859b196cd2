package app

import (
	"context"

	pacerdevices "github.com/pacer-notify/pacer/internal/devices"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// devices answers the API's calls about users' devices.
type devices struct {
	pacerdevices.Store
	rules *rules
}

// PutDevice implements httpapi's Devices.
func (d devices) PutDevice(ctx context.Context, device *notification.Device) error {
	if err := device.Validate(); err != nil {
		return err
	}
	channel, ok := d.rules.channels[device.Channel]
	if !ok || channel.Local {
		return &notification.FieldError{Field: "channel", Message: "is not a configured channel with targets"}
	}
	if err := channel.CheckTarget(device.Target); err != nil {
		return &notification.FieldError{Field: "to", Message: err.Error()}
	}
	return d.Store.PutDevice(ctx, device)
}

// hasDevice tells whether a user has an active device on a channel.
func (a *App) hasDevice(ctx context.Context, userID string, channel notification.Channel) (bool, error) {
	all, err := a.store.Devices(ctx, userID)
	for _, d := range all {
		if d.Active && d.Channel == channel {
			return true, nil
		}
	}
	return false, err
}

// toDevices puts users' devices before the senders of all channels that have targets.
func (a *App) toDevices(senders push.Registry) push.Registry {
	all := push.Registry{}
	for channel, sender := range senders {
		if !a.rules.channels[channel].Local {
			sender = pacerdevices.NewFanout(channel, sender, a.store, a.log)
		}
		all[channel] = sender
	}
	return all
}
