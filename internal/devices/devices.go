// Package devices sends a notification without a target to each active device of its user. Each device has attempts and
// an outcome of its own. A retry only goes to the devices that have not received the notification. The user's limits
// count each attempt once, however many devices there are.
package devices

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// Store keeps devices and what became of notifications on them.
type Store interface {
	// PutDevice registers a device, or registers it again, which makes it active. It fills in the times. It returns
	// [notification.ErrTooManyDevices] when the user has the most devices already.
	PutDevice(ctx context.Context, d *notification.Device) error
	// Device returns one device, or [notification.ErrNoDevice].
	Device(ctx context.Context, userID, id string) (*notification.Device, error)
	// DeleteDevice removes a device. It is no fault when the device is not there.
	DeleteDevice(ctx context.Context, userID, id string) error
	// Devices lists the devices of a user, by id.
	Devices(ctx context.Context, userID string) ([]notification.Device, error)
	// Deactivate notes that a device's target is gone, unless the device has another target by now, or was registered
	// again after since: the moment at which its provider lost the target, zero when that is not known.
	Deactivate(ctx context.Context, d *notification.Device, since time.Time, reason string) error

	// Deliveries lists what became of a notification on each device, by the device's id.
	Deliveries(ctx context.Context, n *notification.Notification) ([]notification.Delivery, error)
	// NoteDelivery replaces what is known of a notification on one device.
	NoteDelivery(ctx context.Context, n *notification.Notification, d notification.Delivery) error
}

// Fanout is a channel's sender for notifications with or without a target.
type Fanout struct {
	push.Sender
	store   Store
	channel notification.Channel
	log     *slog.Logger
}

// NewFanout makes a Fanout over a channel's sender.
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

// pending lists the devices that must still receive the notification, and what became of it on every device.
func (f *Fanout) pending(ctx context.Context,
	m push.Message,
) ([]notification.Device, map[string]notification.Delivery, error) {
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

// nothingPending is the result when no device is left to try.
func nothingPending(known map[string]notification.Delivery) error {
	switch {
	case deliveredTo(known):
		return &push.Error{Class: push.AlreadyDelivered, Code: "devices", Partial: true, Unsent: true}
	case len(known) > 0:
		return &push.Error{Class: push.TargetGone, Code: "devices_gone", Unsent: true}
	}
	return &push.Error{Class: push.Permanent, Code: "no_device", Unsent: true}
}

// deliveredTo reports whether some device has received the notification.
func deliveredTo(known map[string]notification.Delivery) bool {
	for _, d := range known {
		if d.Outcome == notification.OutcomeDelivered {
			return true
		}
	}
	return false
}

// sendAll sends to each target, and returns one error for all.
func (f *Fanout) sendAll(ctx context.Context, m push.Message, targets []notification.Device,
	known map[string]notification.Delivery,
) error {
	results := make([]*push.Error, len(targets))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, target := range targets {
		group.Go(func() error {
			results[i] = f.sendOne(ctx, m, &target, known[target.ID])
			return nil
		})
	}
	_ = group.Wait() // it has no error: the results are kept by target
	return sum(results, deliveredTo(known))
}

// sendOne sends to one device and notes what became of it; known is what became of it earlier.
func (f *Fanout) sendOne(ctx context.Context, m push.Message, target *notification.Device,
	known notification.Delivery,
) *push.Error {
	copied := *m.Notification
	copied.To = target.Target
	failure := push.OutOfTime(ctx)
	untried := failure != nil
	if !untried {
		failure = f.call(ctx, push.Message{
			Notification: &copied, Attempt: known.Attempts + 1, AdmittedAt: m.AdmittedAt, Deadline: m.Deadline,
			Passive: m.Passive,
		})
		untried = failure != nil && failure.Class == push.Throttled && failure.Unsent
	}
	f.note(ctx, m, target, noted(target, known, failure, untried), failure)
	return failure
}

// noted is what is known of a notification on a device from now on. A device that was not tried keeps what became of
// its latest attempt, if it had one.
func noted(target *notification.Device, known notification.Delivery, failure *push.Error, untried bool,
) notification.Delivery {
	if untried && known.Attempts > 0 {
		return known
	}
	now := notification.Delivery{
		DeviceID: target.ID, Attempts: known.Attempts + 1, Ended: true, Outcome: notification.OutcomeDelivered,
	}
	if untried {
		now.Attempts = known.Attempts
	}
	if failure != nil {
		now.Outcome, now.Reply = failure.Class.String()+": "+failure.Code, failure.Reply
		now.Ended = failure.Final()
	}
	return now
}

// note writes what became of a notification on a device.
func (f *Fanout) note(ctx context.Context, m push.Message, target *notification.Device, delivery notification.Delivery,
	failure *push.Error,
) {
	// The result is written even when the time for the delivery is over.
	noting, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	if err := f.store.NoteDelivery(noting, m.Notification, delivery); err != nil {
		f.log.WarnContext(ctx, "could not record the outcome of a delivery to a device; a retry may send the notification there again",
			"notification_id", m.ID, "error", err)
	}
	if failure != nil && failure.Class == push.TargetGone {
		if err := f.store.Deactivate(noting, target, failure.GoneSince, failure.Code); err != nil {
			f.log.WarnContext(ctx, "could not deactivate a device that is gone; the next notification tries it again",
				"error", err)
		}
	}
}

// call calls the channel's sender. A panic is a result of this device: nobody else recovers it in this goroutine, and
// it would end the process.
func (f *Fanout) call(ctx context.Context, m push.Message) (failure *push.Error) {
	defer func() {
		if p := recover(); p != nil {
			failure = push.Panicked(p)
		}
	}()
	return push.Classify(f.Sender.Send(ctx, m))
}

// noteTimeout bounds the writing of what became of a delivery.
const noteTimeout = 3 * time.Second

// sum makes one error of an attempt's results; a device that took the notification has nil. The results that may be
// retried decide the class, and the longest wait holds. The attempt counts when it reached any device, or may have.
// before says that an earlier attempt reached one.
func sum(results []*push.Error, before bool) error {
	all := push.Error{Partial: before, Unsent: true}
	for _, e := range results {
		if e == nil {
			all.Partial, all.Reached, all.Unsent = true, true, false
			continue
		}
		all.Reached = all.Reached || e.Counts()
		all.Unsent = all.Unsent && e.Unsent
		all.RetryAfter = max(all.RetryAfter, e.RetryAfter)
		if weight(e) > weight(&all) {
			all.Class, all.Code, all.Reply, all.Err = e.Class, e.Code, e.Reply, e.Err
		}
	}
	switch {
	case all.Class != 0 && !all.Final():
		return &all
	case all.Partial && all.Reached:
		return nil
	case all.Partial && all.Unsent:
		return &push.Error{Class: push.AlreadyDelivered, Code: "devices", Partial: true, Unsent: true}
	}
	all.RetryAfter = 0
	return &all
}

// weight orders the results of devices. A result that may be retried weighs more than one that is final, and among the
// former one that costs an attempt weighs more.
func weight(e *push.Error) int {
	switch e.Class {
	case push.Transient, push.Ambiguous:
		return 4
	case push.CredentialsRefused:
		return 3
	case push.Throttled:
		return 2
	case push.Permanent, push.TargetGone, push.AlreadyDelivered:
		return 1
	}
	if e.Class == 0 && e.Code == "" {
		return 0 // no result yet
	}
	return 4 // an unknown class counts as ambiguous
}
