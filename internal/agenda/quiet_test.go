package agenda_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// night is a plan's closed interval, from some time after the start of a world.
func night(from, until time.Duration) throttle.Closed {
	at := func(d time.Duration) throttle.Micros { return throttle.MicrosOf(start.Add(d)) }
	return throttle.Closed{{From: at(from), Until: at(until)}}
}

// vienna is where it is nine o'clock when worlds start.
func vienna(t *testing.T) *time.Location {
	t.Helper()
	zone, err := calendar.ParseZone("Europe/Vienna")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// Whoever asks is told that quiet hours hold a notification, until when by the user's clock, and what would hold it
// without them.
func TestQuietHoursAreNamed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		night  throttle.Closed
		detail string
		end    time.Duration
		line   string
	}{
		"in the night": {
			night: night(-time.Hour, 2*time.Hour), end: 2 * time.Hour,
			detail: "quiet hours until 11:00 Europe/Vienna",
			line:   "until 2027-01-15T10:00:00Z, 11:00 Europe/Vienna: quiet_hours",
		},
		"before the night, behind a limit": {
			night: night(time.Second, 8*time.Hour), end: 8 * time.Hour,
			detail: "quiet hours until 17:00 Europe/Vienna; then limit 1/3s",
			line:   "until 2027-01-15T16:00:00Z, 17:00 Europe/Vienna: quiet_hours; then limit 1/3s",
		},
		"for days": {
			night: night(-time.Hour, 50*time.Hour), end: 50 * time.Hour,
			detail: "quiet hours until Sun 2027-01-17 11:00 Europe/Vienna",
			line:   "until 2027-01-17T10:00:00Z, Sun 2027-01-17 11:00 Europe/Vienna: quiet_hours",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := oncePer3s
			settings.MaxDefer, settings.Zone = 100*time.Hour, vienna(t)
			settings.Plan.Closed = test.night
			w := setup(t, settings)
			w.rush(3)
			first := "n1"
			if test.night[0].From > throttle.MicrosOf(start) {
				first = "n2" // one went before the night
			}
			end := start.Add(test.end)
			for i, id := range []string{first, "n3"} {
				s := w.state(id)
				if s.Status != notification.StatusDeferred || s.Reason != "quiet_hours" || s.Detail != test.detail {
					t.Errorf("%s is %s: %s, %s", id, s.Status, s.Reason, s.Detail)
				}
				if i == 0 && !s.DeliverAt.Equal(end) {
					t.Errorf("the first goes at %s", s.DeliverAt)
				}
				if len(s.History) != 1 || s.History[0].Detail != test.line {
					t.Errorf("the history of %s is %+v", id, s.History)
				}
			}
			if n := w.deferrals["chat quiet_hours"]; n < 2 || len(w.deferrals) != 1 {
				t.Errorf("the metrics are told of %v", w.deferrals)
			}
			crowds, err := w.store.Crowds(t.Context(), 10)
			want := []stats.Crowd{{
				UserID: "ada", Category: "chat", Deferred: int64(w.total().Deferred), Reason: "quiet_hours", Until: end.UTC(),
			}}
			if diff := cmp.Diff(want, crowds.Largest); err != nil || diff != "" {
				t.Errorf("the crowds (-want +got), %v:\n%s", err, diff)
			}
		})
	}
}

// What a night holds is counted apart from what limits hold, and makes nothing look old. When the night is over, it is
// counted as before.
func TestQuietHoursAreCountedApart(t *testing.T) {
	t.Parallel()
	settings := oncePer3s
	settings.Plan.Closed = night(-time.Hour, 30*time.Minute)
	settings.ExemptFrom = notification.PriorityCritical
	w := setup(t, settings)
	w.rush(3)
	w.accept(agenda.Entry{Priority: notification.PriorityCritical})
	oldest := func() int64 {
		return w.client.ZCard(t.Context(), agenda.PartitionPrefix(w.store.PartitionOf("ada"))+"o").Val()
	}
	total := w.total()
	if want := (stats.Waiting{QuietHours: 3}); total.Deferred != 3 || total.Queued != 1 || total.Waiting != want ||
		oldest() != 0 {
		t.Errorf("in the night: %+v, %d may be old", total, oldest())
	}
	if granted := w.playUntil(w.now.Add(20 * time.Minute)); len(granted) != 1 || granted[0].Notification.ID != "n4" {
		t.Errorf("in the night went %d", len(granted))
	}
	w.accept(agenda.Entry{})
	if total := w.total(); total.Deferred != 4 || total.Waiting.QuietHours != 4 {
		t.Errorf("later in the night: %+v", total)
	}
	if err := w.store.Cancel(t.Context(), "n1"); err != nil {
		t.Fatal(err)
	}
	if total := w.total(); total.Deferred != 3 || total.Waiting.QuietHours != 3 {
		t.Errorf("after one was cancelled: %+v", total)
	}
	w.playUntil(start.Add(30 * time.Minute))
	if total := w.total(); total.Deferred != 2 || total.Waiting != (stats.Waiting{Throttle: 2}) ||
		oldest() != 1 {
		t.Errorf("after the night: %+v, %d may be old", total, oldest())
	}
	w.drain()
	if total := w.total(); total.Deferred+total.Waiting.QuietHours+total.Waiting.Throttle != 0 {
		t.Errorf("at the end: %+v", total)
	}
}

// A worker that takes nothing after a night leaves it behind, and the counts say so.
func TestANightThatEndsForNobodyIsSeen(t *testing.T) {
	t.Parallel()
	settings := agenda.Settings{Plan: throttle.Plan{Closed: night(-time.Hour, time.Hour)}}
	w := setup(t, settings)
	w.rush(2)
	over := func() (n int64) {
		for _, p := range w.total().Partitions {
			n += p.QuietOver
		}
		return n
	}
	if n := over(); n != 0 {
		t.Errorf("in the night %d are left behind", n)
	}
	passed := throttle.MicrosOf(time.Now().Add(-time.Hour)) // the look has no other clock
	key := agenda.PartitionPrefix(w.store.PartitionOf("ada")) + "quiet"
	by := float64(passed - settings.Plan.Closed[0].Until)
	if err := w.client.ZIncrBy(t.Context(), key, by, "chat:ada").Err(); err != nil {
		t.Fatal(err)
	}
	if n := over(); n != 1 {
		t.Errorf("after the night %d are left behind", n)
	}
}

// A retry, and a delivery whose worker died, wait for the end of the night like everything else.
func TestWhatComesBackWaitsForTheEndOfTheNight(t *testing.T) {
	t.Parallel()
	retry := dispatch.Outcome{
		Disposition: dispatch.Retry, Reason: "transient", Failure: true, RetryAfter: 2 * time.Minute,
	}
	for name, test := range map[string]struct {
		settings agenda.Settings
		// after has the attempt of a minute before the night come back.
		after func(w *world)
		at    time.Duration
	}{
		"a retry": {after: func(w *world) { w.settle(retry) }, at: 8 * time.Hour},
		"a retry that bypasses": {
			settings: agenda.Settings{BypassFrom: notification.PriorityLow},
			after:    func(w *world) { w.settle(retry) }, at: 2 * time.Minute,
		},
		"a retry that is exempt": {
			settings: agenda.Settings{ExemptFrom: notification.PriorityNormal},
			after:    func(w *world) { w.settle(retry) }, at: 2 * time.Minute,
		},
		"a lease that ended": {
			after: func(w *world) {
				w.grants = nil // its worker dies
				w.advance(2 * time.Minute)
				w.sweep()
			},
			at: 8 * time.Hour,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := test.settings
			settings.Plan.Closed = night(time.Minute, 8*time.Hour)
			w := setup(t, settings)
			id := w.accept(agenda.Entry{})
			for partition := range partitions {
				w.round(partition, 32)
				w.round(partition, 32)
			}
			if len(w.grants) != 1 {
				t.Fatalf("%d were granted before the night", len(w.grants))
			}
			test.after(w)
			granted := w.drain()
			if len(granted) != 1 || !granted[0].AdmittedAt.Equal(start.Add(test.at)) {
				t.Errorf("granted again: %d, at %s", len(granted), granted[0].AdmittedAt.Sub(start))
			}
			if s := w.state(id); s.Status != notification.StatusDelivered {
				t.Errorf("it is %s", s.Status)
			}
		})
	}
}

// What is due in quiet hours that drop ends then: the first, and those behind it, of which a round ends only so many.
// What a limit holds waits for its slot, and what is exempt goes.
func TestQuietHoursDrop(t *testing.T) {
	t.Parallel()
	settings := oncePer3s
	settings.Drops, settings.ExemptFrom = true, notification.PriorityCritical
	settings.Plan.Closed = night(2*time.Second, 30*time.Minute)
	w := setup(t, settings)
	ids := w.rush(250) // of which one goes
	if s := w.state(ids[1]); s.Status != notification.StatusDeferred || s.Reason != "quiet_hours" ||
		!s.DeliverAt.IsZero() || s.Detail != "due at 2027-01-15T08:00:03Z, in quiet hours until 08:30 UTC, which end it: then: drop" {
		t.Errorf("before it is due: %+v", s)
	}
	if granted := w.playUntil(start.Add(2999 * time.Millisecond)); len(granted) != 1 || w.total().Totals.Expired != 0 {
		t.Errorf("before it is due: %+v", w.total())
	}
	critical := w.accept(agenda.Entry{Priority: notification.PriorityCritical})
	granted := w.playUntil(start.Add(20 * time.Minute))
	if len(granted) != 1 || granted[0].Notification.ID != critical {
		t.Errorf("in quiet hours went %d", len(granted))
	}
	total := w.total()
	want := []stats.EndReason{{Status: "expired", Reason: "quiet_hours", Count: 249}}
	if total.Deferred+total.Queued != 0 || total.Totals.Expired != 249 || !cmp.Equal(want, total.Reasons) {
		t.Errorf("in quiet hours: %+v", total)
	}
	if s := w.state(ids[249]); s.Status != notification.StatusExpired || s.Reason != "quiet_hours" || s.Detail !=
		"its slot 2027-01-15T08:00:06Z was in quiet hours, which last until 2027-01-15T08:30:00Z and end it: then: drop" {
		t.Errorf("the last: %+v", s)
	}
	late := w.accept(agenda.Entry{SendAt: start.Add(30 * time.Minute)})
	if s := w.state(late); s.Status != notification.StatusScheduled || !s.DeliverAt.Equal(start.Add(30*time.Minute)) {
		t.Errorf("one for the morning: %+v", s)
	}
	if granted := w.drain(); len(granted) != 1 || granted[0].Notification.ID != late {
		t.Errorf("in the morning went %d", len(granted))
	}
}

// A round ends no more than its share of a backlog that quiet hours drop.
func TestARoundDropsBoundedly(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{Drops: true, Plan: throttle.Plan{Closed: night(-time.Minute, 30*time.Minute)}})
	for range 350 {
		w.accept(agenda.Entry{})
	}
	before := int64(0)
	for round := 0; w.total().Queued > 0; round++ {
		for partition := range partitions {
			w.round(partition, 32)
		}
		now := w.total().Totals.Expired
		if now-before > 2*100 || round > 20 {
			t.Fatalf("round %d ended %d", round, now-before)
		}
		before = now
	}
	if n := w.total().Totals.Expired; n != 350 || len(w.grants) != 0 {
		t.Errorf("%d ended, %d were granted", n, len(w.grants))
	}
}

// What would expire while its user begins again goes a minute before, when it is the first: from the beginning, as it
// comes, or because the one before it was cancelled.
func TestWhatExpiresWhileUsersBeginAgain(t *testing.T) {
	t.Parallel()
	settings := agenda.Settings{Plan: throttle.Plan{
		Closed: night(-time.Minute, 20*time.Minute), Spread: 30 * time.Minute,
	}}
	mine := settings.Plan.For("ada").Closed[0].Until.Time()
	expires := start.Add(25 * time.Minute)
	if mine.Before(expires) {
		t.Fatalf("ada begins again at %s, which shows nothing", mine)
	}
	soon := agenda.Entry{ExpiresAt: expires}
	for name, arrange := range map[string]func(w *world) string{
		"the first": func(w *world) string { return w.accept(soon) },
		"a more urgent one": func(w *world) string {
			w.rush(1)
			first := soon
			first.Priority = notification.PriorityHigh
			return w.accept(first)
		},
		"after a cancellation": func(w *world) string {
			before := w.rush(1)
			id := w.accept(soon)
			if err := w.store.Cancel(w.test.Context(), before[0]); err != nil {
				w.t.Fatalf("cancel: %v", err)
			}
			return id
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, settings)
			id := arrange(w)
			if s := w.state(id); !s.DeliverAt.Equal(expires.Add(-time.Minute)) {
				t.Errorf("it is expected at %s", s.DeliverAt)
			}
			granted := w.playUntil(mine.Add(-time.Second))
			if len(granted) != 1 || granted[0].Notification.ID != id ||
				!granted[0].AdmittedAt.Equal(expires.Add(-time.Minute)) {
				t.Errorf("%d went before the user begins again", len(granted))
			}
			w.drain()
		})
	}
}
