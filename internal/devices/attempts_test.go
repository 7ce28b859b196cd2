package devices_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/devices"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// A sender that panics for one device may have sent there. The other devices get the notification.
func TestAPanicForOneDeviceIsItsResult(t *testing.T) {
	t.Parallel()
	s, p := newStore("a", "b"), &provider{panics: "to a"}
	f := devices.NewFanout("webhook", p, s, slog.New(slog.DiscardHandler))
	got := push.Classify(f.Send(t.Context(), message(1)))
	if got == nil || got.Class != push.Ambiguous || got.Code != "panic" || !got.Partial || got.Err == nil {
		t.Errorf("got %+v, want ambiguous: panic, with its cause, delivered to some", got)
	}
	want := map[string]notification.Delivery{
		"a": {DeviceID: "a", Attempts: 1, Outcome: "ambiguous: panic"},
		"b": {DeviceID: "b", Attempts: 1, Ended: true, Outcome: "delivered"},
	}
	if diff := cmp.Diff(want, s.deliveries); diff != "" {
		t.Errorf("deliveries differ (-want +got):\n%s", diff)
	}
}

// A device that waits for its provider was not tried: what is known of it stays, and its attempts are those that were
// made. The attempt of the notification counts for the devices that it reached.
func TestWhatWasNotSentIsNoAttempt(t *testing.T) {
	t.Parallel()
	budget := &push.Error{Class: push.Throttled, Code: "provider_budget", Unsent: true}
	s, p := newStore("a", "b", "c"), &provider{results: map[string]error{
		"to b": budget, "to c": &push.Error{Class: push.Transient, Code: "503", Reply: "busy"},
	}}
	f := devices.NewFanout("webhook", p, s, slog.New(slog.DiscardHandler))
	send(t, f, p, 1, []string{"to a", "to b", "to c"},
		&push.Error{Class: push.Transient, Code: "503", Reply: "busy", Partial: true, Reached: true})
	p.results["to c"] = budget
	for _, attempt := range []int{2, 3} {
		send(t, f, p, attempt, []string{"to b", "to c"},
			&push.Error{Class: push.Throttled, Code: "provider_budget", Partial: true, Unsent: true})
	}
	want := map[string]notification.Delivery{
		"a": {DeviceID: "a", Attempts: 1, Ended: true, Outcome: "delivered"},
		"b": {DeviceID: "b", Outcome: "throttled: provider_budget"},
		"c": {DeviceID: "c", Attempts: 1, Outcome: "transient: 503", Reply: "busy"},
	}
	if diff := cmp.Diff(want, s.deliveries); diff != "" {
		t.Errorf("while both wait, deliveries differ (-want +got):\n%s", diff)
	}
	clear(p.results)
	send(t, f, p, 4, []string{"to b", "to c"}, nil)
	if diff := cmp.Diff(map[string]int{"to a": 1, "to b": 1, "to c": 2}, p.attempt); diff != "" {
		t.Errorf("attempts differ (-want +got):\n%s", diff)
	}
	if s.deliveries["b"].Attempts != 1 || s.deliveries["c"].Attempts != 2 {
		t.Errorf("noted %+v", s.deliveries)
	}
}

// When the time of an attempt is over, the devices that are left are not called, and that is no attempt of theirs.
func TestDevicesThatAreLeftWhenTheTimeIsOverAreNotCalled(t *testing.T) {
	t.Parallel()
	s, p := newStore("a", "b"), &provider{}
	s.deliveries["a"] = notification.Delivery{DeviceID: "a", Attempts: 2, Outcome: "transient: 503", Reply: "busy"}
	f := devices.NewFanout("webhook", p, s, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	failure := push.Classify(f.Send(ctx, message(3)))
	if sent := p.took(); failure == nil || failure.Class != push.Transient || failure.Code != "timeout" ||
		!failure.Unsent || len(sent) > 0 {
		t.Errorf("sent to %v, %+v; want none, and a time-out", sent, failure)
	}
	want := map[string]notification.Delivery{
		"a": {DeviceID: "a", Attempts: 2, Outcome: "transient: 503", Reply: "busy"},
		"b": {DeviceID: "b", Outcome: "transient: timeout"},
	}
	if diff := cmp.Diff(want, s.deliveries); diff != "" {
		t.Errorf("deliveries differ (-want +got):\n%s", diff)
	}
}
