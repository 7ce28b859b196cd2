package agenda_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/calendar"
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
			crowds, err := outlook.Of(w.store).Crowds(t.Context(), 10)
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
		return w.client.ZCard(t.Context(), keyspace.Prefix(w.store.PartitionOf("ada"))+"o").Val()
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
			n += p.HeldOver
		}
		return n
	}
	if n := over(); n != 0 {
		t.Errorf("in the night %d are left behind", n)
	}
	passed := throttle.MicrosOf(time.Now().Add(-time.Hour)) // the look has no other clock
	key := keyspace.Prefix(w.store.PartitionOf("ada")) + "opens"
	by := float64(passed - settings.Plan.Closed[0].Until)
	if err := w.client.ZIncrBy(t.Context(), key, by, "chat:ada").Err(); err != nil {
		t.Fatal(err)
	}
	if n := over(); n != 1 {
		t.Errorf("after the night %d are left behind", n)
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
