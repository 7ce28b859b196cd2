package postgres_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
)

// A retry of a user for whom nothing else waits costs one pull: the wake-up that is held for it knows its category.
func TestARetryCostsOnePull(t *testing.T) {
	t.Parallel()
	w := endWorld(t)
	w.acceptOne(t, notification.Notification{ID: "later", SendAt: time.Now().Add(300 * time.Millisecond)})
	retry := dispatch.Outcome{
		Disposition: dispatch.Retry, Reason: "transient: 503", RetryAfter: 300 * time.Millisecond, Failure: true,
	}
	for i, outcome := range []dispatch.Outcome{retry, delivered} {
		var granted []*dispatch.Grant
		for range 1000 {
			taken := w.ask(t, "ada", 1)
			if granted = taken.Grants; len(granted) > 0 {
				break
			}
			<-time.After(max(taken.After, time.Millisecond))
		}
		if len(granted) != 1 || !w.claim(t, granted[0]) {
			t.Fatalf("granted %+v", granted)
		}
		w.settle(t, granted[0], outcome)
		if w.pulled != i+1 {
			t.Errorf("%d pulls for %d deliveries", w.pulled, i+1)
		}
	}
}
