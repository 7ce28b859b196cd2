// Package devices sends notifications that name no target to each active device of their user. Each device has attempts and
// an outcome of its own, while the user's throttle counts the notification once per attempt: a repeat goes to the devices
// that have not had it.
package devices

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// Store keeps devices and what became of notifications on them.
type Store interface {
	// PutDevice registers a device, or registers it again: it is active then. It fills in the times. It gives
	// [notification.ErrTooManyDevices] when the user has as many as there may be.
	PutDevice(ctx context.Context, d *notification.Device) error
	// Device gives one, or [notification.ErrNoDevice].
	Device(ctx context.Context, userID, id string) (*notification.Device, error)
	// DeleteDevice removes one; one that is not there is no fault.
	DeleteDevice(ctx context.Context, userID, id string) error
	// Devices lists a user's, by id.
	Devices(ctx context.Context, userID string) ([]notification.Device, error)
	// Deactivate notes that a target is gone, unless the device has another by now, or was registered again after its
	// provider found that (zero: when that was is not known).
	Deactivate(ctx context.Context, d *notification.Device, since time.Time, reason string) error

	// Deliveries lists what became of a notification, by device.
	Deliveries(ctx context.Context, n *notification.Notification) ([]notification.Delivery, error)
	// NoteDelivery replaces what is known of a device.
	NoteDelivery(ctx context.Context, n *notification.Notification, d notification.Delivery) error
}

// Fanout is a channel's sender for notifications with a target or without.
type Fanout struct {
	push.Sender
	store   Store
	channel notification.Channel
	log     *slog.Logger
}

// NewFanout puts the user's devices before a sender.
func NewFanout(channel notification.Channel, sender push.Sender, store Store, log *slog.Logger) *Fanout {
	return &Fanout{Sender: sender, store: store, channel: channel, log: log}
}

// atOnce is how many devices of a user are sent to at the same time.
const atOnce = 8

// Send implements [push.Sender].
func (f *Fanout) Send(ctx context.Context, m push.Message) error {
	if m.To != "" {
		return f.Sender.Send(ctx, m)
	}
	targets, known, err := f.pending(ctx, m)
	if err != nil {
		return &push.Error{Class: push.Transient, Code: "devices_unknown", Unsent: true, Err: err}
	}
	if len(targets) == 0 {
		return nothingPending(known)
	}
	return f.sendAll(ctx, m, targets, known)
}

// pending lists the devices that have to get the notification yet, and what became of it on all.
func (f *Fanout) pending(ctx context.Context, m push.Message) ([]notification.Device, map[string]notification.Delivery, error) {
	known := map[string]notification.Delivery{}
	if m.Attempt > 1 {
		deliveries, err := f.store.Deliveries(ctx, m.Notification)
		if err != nil {
			return nil, nil, err
		}
		for _, d := range deliveries {
			known[d.DeviceID] = d
		}
	}
	devices, err := f.store.Devices(ctx, m.UserID)
	if err != nil {
		return nil, nil, err
	}
	var targets []notification.Device
	for _, d := range devices {
		if d.Active && d.Channel == f.channel && !known[d.ID].Ended {
			targets = append(targets, d)
		}
	}
	return targets, known, nil
}

// nothingPending says what it means that no device is left to be tried.
func nothingPending(known map[string]notification.Delivery) error {
	for _, d := range known {
		if d.Outcome == notification.OutcomeDelivered {
			return nil
		}
	}
	if len(known) > 0 {
		return &push.Error{Class: push.TargetGone, Code: "devices_gone", Unsent: true}
	}
	return &push.Error{Class: push.Permanent, Code: "no_device", Unsent: true}
}

// sendAll sends to each target, and gives one error for all.
func (f *Fanout) sendAll(ctx context.Context, m push.Message, targets []notification.Device, known map[string]notification.Delivery) error {
	var mu sync.Mutex
	failures := make([]*push.Error, 0, len(targets))
	delivered := false
	for _, d := range known {
		delivered = delivered || d.Outcome == notification.OutcomeDelivered
	}
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, target := range targets {
		group.Go(func() error {
			failure := f.sendOne(ctx, m, &target, known[target.ID].Attempts+1)
			mu.Lock()
			defer mu.Unlock()
			if failure == nil {
				delivered = true
			} else {
				failures = append(failures, failure)
			}
			return nil
		})
	}
	_ = group.Wait() // gives no error
	return sum(failures, delivered)
}

// sendOne sends to one device and notes what became of it.
func (f *Fanout) sendOne(ctx context.Context, m push.Message, target *notification.Device, attempt int) *push.Error {
	copied := *m.Notification
	copied.To = target.Target
	failure := push.Classify(f.Sender.Send(ctx, push.Message{Notification: &copied, Attempt: attempt, AdmittedAt: m.AdmittedAt}))
	delivery := notification.Delivery{DeviceID: target.ID, Attempts: attempt, Ended: true, Outcome: notification.OutcomeDelivered}
	if failure != nil {
		delivery.Outcome = failure.Class.String() + ": " + failure.Code
		delivery.Ended = failure.Class == push.Permanent || failure.Class == push.TargetGone
	}
	// What the provider has said is written even when the time for the delivery is over.
	noting, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	if err := f.store.NoteDelivery(noting, m.Notification, delivery); err != nil {
		f.log.WarnContext(ctx, "note what became of a notification on a device; a retry may go there again", "notification_id", m.ID, "error", err)
	}
	if failure != nil && failure.Class == push.TargetGone {
		if err := f.store.Deactivate(noting, target, failure.GoneSince, failure.Code); err != nil {
			f.log.WarnContext(ctx, "deactivate a device that is gone; the next notification tries it again", "error", err)
		}
	}
	return failure
}

// noteTimeout bounds the writing of what became of a delivery.
const noteTimeout = 3 * time.Second

// sum is one error for what became of all devices: what can be tried again counts most, a delivery next.
func sum(failures []*push.Error, delivered bool) error {
	var again, ended *push.Error
	unsent := !delivered
	for _, e := range failures {
		unsent = unsent && e.Unsent
		if e.Class == push.Permanent || e.Class == push.TargetGone {
			ended = e
			continue
		}
		if again == nil {
			copied := *e
			again = &copied
		}
		// One failure that costs an attempt makes all cost one, and the longest wait is kept to.
		if again.Class == push.Throttled && e.Class != push.Throttled {
			again.Class, again.Code = e.Class, e.Code
		}
		again.RetryAfter = max(again.RetryAfter, e.RetryAfter)
	}
	switch {
	case again != nil:
		again.Unsent, again.Partial = unsent, delivered
		return again
	case delivered || ended == nil:
		return nil
	}
	copied := *ended
	copied.Unsent = unsent
	return &copied
}
