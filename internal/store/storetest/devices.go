package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pacer-notify/pacer/internal/notification"
)

// withoutTimes compares devices and deliveries without the times at which they were written.
var withoutTimes = cmp.Options{
	cmpopts.IgnoreFields(notification.Device{}, "CreatedAt", "UpdatedAt", "DeactivatedAt"),
	cmpopts.IgnoreFields(notification.Delivery{}, "At"),
	cmpopts.EquateEmpty(),
}

// register registers a device.
func (p *probe) register(user, id, target string) notification.Device {
	p.Helper()
	d := notification.Device{UserID: user, ID: id, Channel: notification.ChannelWebhook, Target: target}
	if err := p.PutDevice(p.Context(), &d); err != nil {
		p.Fatalf("register %s: %v", id, err)
	}
	return d
}

// wantDevices compares a user's devices.
func (p *probe) wantDevices(user string, want ...notification.Device) {
	p.Helper()
	got, err := p.Devices(p.Context(), user)
	if diff := cmp.Diff(want, got, withoutTimes); err != nil || diff != "" {
		p.Errorf("devices of %s differ (-want +got), %v:\n%s", user, err, diff)
	}
}

// devicesAreKept: devices are registered, registered again, listed and removed.
func devicesAreKept(p *probe) {
	p.wantDevices("ada")
	if _, err := p.Device(p.Context(), "ada", "phone"); !errors.Is(err, notification.ErrNoDevice) {
		p.Errorf("an unknown device gives %v", err)
	}
	before := time.Now().Add(-time.Minute)
	phone := p.register("ada", "phone", "https://example.com/ü 1")
	if !phone.Active || phone.CreatedAt.Before(before) || phone.UpdatedAt.Before(phone.CreatedAt) {
		p.Errorf("registered as %+v", phone)
	}
	desk := p.register("ada", "desk", "https://example.com/2")
	p.register("ben", "phone", "https://example.com/3")
	p.wantDevices("ada", desk, phone)
	again := p.register("ada", "phone", "https://example.com/4")
	if !again.CreatedAt.Equal(phone.CreatedAt) || again.UpdatedAt.Before(phone.UpdatedAt) {
		p.Errorf("registered again as %+v after %+v", again, phone)
	}
	if got, err := p.Device(p.Context(), "ada", "phone"); err != nil || !cmp.Equal(*got, again, withoutTimes) ||
		!got.UpdatedAt.Equal(again.UpdatedAt) {
		p.Errorf("kept as %+v, %v; want %+v", got, err, again)
	}
	for range 2 { // to remove a device that is gone is no fault
		if err := p.DeleteDevice(p.Context(), "ada", "desk"); err != nil {
			p.Errorf("remove: %v", err)
		}
	}
	p.wantDevices("ada", again)
}

// goneDevicesAreDeactivated: a device whose target is gone is deactivated, unless it was registered again meanwhile.
func goneDevicesAreDeactivated(p *probe) {
	old := p.register("ada", "phone", "https://example.com/old")
	deactivate := func(d notification.Device, since time.Time) {
		p.Helper()
		if err := p.Deactivate(p.Context(), &d, since, "410"); err != nil {
			p.Errorf("deactivate: %v", err)
		}
	}
	gone := old
	gone.Active, gone.Reason = false, "410"
	deactivate(old, old.UpdatedAt.Add(-time.Hour)) // the provider lost it before it was registered
	p.wantDevices("ada", old)
	deactivate(old, time.Time{})
	p.wantDevices("ada", gone)
	if got, err := p.Device(p.Context(), "ada", "phone"); err != nil || got.DeactivatedAt.Before(got.UpdatedAt) {
		p.Errorf("deactivated as %+v, %v", got, err)
	}
	fresh := p.register("ada", "phone", "https://example.com/fresh")
	deactivate(old, time.Time{}) // by one who still knew the old target
	p.wantDevices("ada", fresh)
	deactivate(fresh, time.Now().Add(time.Hour))
	gone.Target = fresh.Target
	p.wantDevices("ada", gone)
	deactivate(notification.Device{UserID: "ada", ID: "unknown", Target: "x"}, time.Time{})
}

// devicesAreLimited: a user has at most [notification.MaxDevices] devices.
func devicesAreLimited(p *probe) {
	for i := range notification.MaxDevices {
		p.register("ada", fmt.Sprintf("d%d", i), "https://example.com/")
	}
	d := notification.Device{
		UserID: "ada", ID: "one-more", Channel: notification.ChannelWebhook,
		Target: "https://example.com/",
	}
	if err := p.PutDevice(p.Context(), &d); !errors.Is(err, notification.ErrTooManyDevices) {
		p.Errorf("one too many gives %v", err)
	}
	p.register("ada", "d0", "https://example.com/again")
}

// deliveriesAreKept: what became of a notification is kept by device.
func deliveriesAreKept(p *probe) {
	n := p.accept(func(n *notification.Notification) { n.To = "" })
	other := p.accept(nil)
	note := func(d notification.Delivery) {
		p.Helper()
		if err := p.NoteDelivery(p.Context(), n, d); err != nil {
			p.Errorf("note: %v", err)
		}
	}
	want := []notification.Delivery{
		{DeviceID: "desk", Attempts: 1, Ended: true, Outcome: notification.OutcomeDelivered},
		{DeviceID: "phone", Attempts: 2, Ended: false, Outcome: "transient: 503", Reply: "busy"},
	}
	note(notification.Delivery{DeviceID: "phone", Attempts: 1, Outcome: "ambiguous: timeout"})
	note(want[0])
	note(want[1])
	got, err := p.Deliveries(p.Context(), n)
	if diff := cmp.Diff(want, got, withoutTimes); err != nil || diff != "" {
		p.Errorf("deliveries differ (-want +got), %v:\n%s", err, diff)
	}
	if got, err := p.Deliveries(p.Context(), other); err != nil || len(got) != 0 {
		p.Errorf("another notification has %v, %v", got, err)
	}
}
