package desk_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
)

// reached has a notification accepted for the devices of a user, and tried. The phone got it or not, and the tablet did
// not.
func (w *world) reached(phone string, becomes dispatch.Outcome) string {
	w.Helper()
	n := w.accept(func(n *notification.Notification) { n.To = "" })
	for device, outcome := range map[string]string{"phone": phone, "tablet": "transient: 503"} {
		noted := notification.Delivery{DeviceID: device, Attempts: 1, Outcome: outcome}
		if err := w.store.NoteDelivery(w.Context(), n, noted); err != nil {
			w.Fatal(err)
		}
	}
	w.settle(w.grant(), becomes)
	return n.ID
}

var (
	expired = dispatch.Outcome{Disposition: dispatch.Expired, Reason: notification.ReasonExpired}
	later   = dispatch.Outcome{
		Disposition: dispatch.Retry, Reason: "transient: 503", RetryAfter: time.Hour, Failure: true,
	}
)

// What some devices have is not sent again, and does not go on over another channel: they would get it twice.
func TestWhatSomeDevicesHaveIsNotSentAgain(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		m := w.many()
		ended := w.reached(notification.OutcomeDelivered, expired)
		waiting := w.reached(notification.OutcomeDelivered, later)
		_, retried := m.Retry(t.Context(), ended)
		_, moved := m.Move(t.Context(), ended, "email")
		_, movedWaiting := m.Move(t.Context(), waiting, "email")
		for action, err := range map[string]error{
			"sent again": retried, "moved": moved, "moved while it waits": movedWaiting,
		} {
			if !refused(err) {
				t.Errorf("%s: %v, want a refusal", action, err)
				continue
			}
			w.says(action, err.Error())
		}
		if v := w.view(waiting); !v.Status.Waiting() {
			t.Errorf("the one that waits is %s (%s)", v.Status, v.Reason)
		}
		if err := m.Cancel(t.Context(), waiting); err != nil {
			t.Errorf("cancel: %v", err)
		}
		for _, id := range []string{w.reached("ambiguous: timeout", expired), w.reached("transient: 503", expired)} {
			if _, err := m.Retry(t.Context(), id); err != nil {
				t.Errorf("what no device surely has: %v", err)
			}
		}
	})
}
