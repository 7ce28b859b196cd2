package desk_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/transcript"
)

func TestAPolicyDiffInWords(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	transcript.Equal(t, "testdata/policydiff.txt", fmt.Sprint(&desk.PolicyDiff{
		InForce: "918ad9f135aeac20", Version: "1e1152c87feba857",
		Rules: []policy.Difference{
			{Before: "time zone UTC", After: "time zone UTC, quiet hours in window night, spread 15m"},
			{Category: "chat", Before: "limit 10/1m, max_defer 1d", After: "limit 20/1m, max_defer 1d"},
			{Category: "news", After: "limit 1/1h, max_defer 1d"},
		},
		Users: 1000, Looked: 400,
		Waiting: []desk.WaitingDiff{
			{
				Category: "chat", Waiting: 25_000, Sooner: 24_100, Same: 850, Ended: 50,
				MostSooner: &desk.Moved{ID: "n7", Before: at.Add(time.Hour), After: at},
			},
		},
	}))
}

// max_defer counts from when something could go, also in a comparison: from its send_at, or from the end of its
// back-off, however long ago it was accepted. What bypasses never waits too long.
func TestADiffCountsMaxDeferFromWhenItCouldGo(t *testing.T) {
	t.Parallel()
	failed := dispatch.Outcome{Disposition: dispatch.Retry, Reason: "transient: 503", Failure: true}
	hourly, halfDaily := rules(throttle.Rule{Max: 1, Per: time.Hour}), rules(throttle.Rule{Max: 1, Per: 12 * time.Hour})
	for name, c := range map[string]struct {
		sendAt   time.Duration // how long after its acceptance, 23 hours ago
		attempts bool          // whether an attempt at it has just failed
		after    agenda.Settings
		want     desk.WaitingDiff
	}{
		"since its send_at": {
			sendAt: 22 * time.Hour, after: agenda.Settings{Plan: halfDaily, MaxDefer: 24 * time.Hour},
			want: desk.WaitingDiff{Later: 1},
		},
		"since a send_at too long ago": {
			sendAt: 5 * time.Hour, after: agenda.Settings{Plan: halfDaily, MaxDefer: 24 * time.Hour},
			want: desk.WaitingDiff{Ended: 1},
		},
		"since the end of its back-off": {
			attempts: true, after: agenda.Settings{Plan: halfDaily, MaxDefer: 24 * time.Hour},
			want: desk.WaitingDiff{Later: 1},
		},
		"since the end of its back-off, for too long": {
			attempts: true, after: agenda.Settings{Plan: hourly, MaxDefer: 30 * time.Minute},
			want: desk.WaitingDiff{Ended: 1},
		},
		"past all limits": {
			sendAt: 22 * time.Hour,
			after:  agenda.Settings{Plan: halfDaily, MaxDefer: time.Minute, BypassFrom: notification.PriorityLow},
			want:   desk.WaitingDiff{Sooner: 1},
		},
		"since its acceptance": {
			after: agenda.Settings{Plan: halfDaily, MaxDefer: 24 * time.Hour},
			want:  desk.WaitingDiff{Ended: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := onRedis(t)
			if !c.attempts {
				w.bring("slow", delivered)
			}
			w.acceptedAgo("slow", 23*time.Hour, c.sendAt)
			if c.attempts {
				w.settle(w.grant(), failed)
			}
			w.until("a deferral", nil, func() bool { return w.category(w.user("ada"), "slow").Deferred == 1 })
			settings := func(string, string) agenda.Settings { return c.after }
			after, err := agenda.New(w.client, agenda.Config{
				Partitions: partitions, Settings: settings, Apart: true, Changed: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			diff, err := desk.Diff(t.Context(), w.agendas, after)
			if err != nil || len(diff.Waiting) != 1 {
				t.Fatalf("%+v, %v", diff, err)
			}
			got := diff.Waiting[0]
			got.MostSooner, got.MostLater = nil, nil
			c.want.Category, c.want.Waiting = "slow", 1
			if got != c.want {
				t.Errorf("it would be %+v, want %+v", got, c.want)
			}
		})
	}
}

// acceptedAgo has a notification wait that was accepted so long ago, with a send_at so long after that; 0 for none.
func (w *world) acceptedAgo(category string, ago, sendAfter time.Duration) {
	w.Helper()
	e := agenda.Entry{
		ID: "old", UserID: "ada", Category: category, Priority: notification.PriorityNormal, Age: ago,
		Payload: agenda.OnChannel(notification.ChannelLog),
	}
	if sendAfter > 0 {
		e.SendAt = time.Now().Add(sendAfter - ago)
	}
	if _, err := w.agendas.Accept(w.Context(), w.agendas.PartitionOf(e.UserID), []agenda.Entry{e}); err != nil {
		w.Fatal(err)
	}
}
