package desk_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// What the processes report decides, too: without a worker nothing goes out, whatever the limits say.
func TestWhatProcessesReportIsNamed(t *testing.T) {
	t.Parallel()
	held := func(code string) func(*world) string {
		return func(w *world) string {
			return w.bring("free", dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "throttled: " + code, Untried: true, Refund: true, RetryAfter: time.Hour,
			})
		}
	}
	away := []desk.Trouble{
		{Channel: "fcm", Words: "the provider is not called"},
		{Channel: "log", Host: "b.example", Words: "b.example is not called"},
		{Channel: "log", Host: "target", Words: "target is not called (last reply 503)"},
	}
	for _, c := range []struct {
		name  string
		fleet desk.Fleet
		fault error
		// bring has something of ada wait in the category free; by default something waits for a worker.
		bring func(*world) string
	}{
		{name: "NoWorker"},
		{
			name: "NoWorkerForWhatIsScheduled",
			bring: func(w *world) string {
				return w.accept(func(n *notification.Notification) { n.SendAt = time.Now().Add(time.Hour) }).ID
			},
		},
		{name: "AllBusy", fleet: desk.Fleet{Workers: 2, InFlight: 8, Concurrency: 8}},
		{name: "RedisAway", fault: errors.New("away")},
		{name: "RedisFull", fleet: desk.Fleet{Workers: 1, RedisFull: true}},
		{name: "Clocks", fleet: desk.Fleet{Workers: 1, ClockAhead: -time.Hour}},
		{name: "ItsHost", fleet: desk.Fleet{Workers: 1, Troubles: away}, bring: held("breaker_open")},
		{name: "TheOnlyProvider", fleet: desk.Fleet{Workers: 1, Troubles: away[:1]}, bring: held("channel_paused")},
		{name: "BusyHost", fleet: desk.Fleet{Workers: 1, Troubles: away}, bring: held("provider_busy")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, w *world) {
				w.fleet = func() (desk.Fleet, error) { return c.fleet, c.fault }
				id := ""
				if c.bring != nil {
					id = c.bring(w)
				} else {
					id = w.accept(nil).ID
				}
				u, e := w.user("ada"), w.explain(id)
				w.says("user", u.Standing)
				w.says("notification", e.Standing)
				for _, category := range u.Categories {
					if category.MaySendNow && (c.fleet.Workers == 0 || c.fleet.RedisFull || c.fault != nil) {
						t.Errorf("in category %s one may be sent now: %s", category.Category, category.Standing)
					}
				}
			})
		})
	}
}

// A rule of the user's own is told as such, and so is one that counts what bypassed it.
func TestWhoseRuleDefers(t *testing.T) {
	t.Parallel()
	onBoth(t, func(_ *testing.T, w *world) {
		w.own["ada"] = []throttle.Rule{{Max: 1, Per: time.Minute}}
		id := w.deferred("slow")
		w.says("user", w.user("ada").Standing)
		w.says("notification", w.explain(id).Standing)
	})
}

// Whoever cancelled a notification is named, and what took another's place.
func TestEndsByPeopleAreNamed(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		mine, theirs := w.accept(in("slow")).ID, w.accept(in("slow")).ID
		w.cancelledBy = map[string]string{theirs: "grace (10.0.0.1)"}
		for _, id := range []string{mine, theirs} {
			if err := w.store.Cancel(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		w.says("an operator's", w.explain(theirs).Standing)
		w.says("the other", w.explain(mine).Standing)
		w.says("user", w.user("ada").Standing)
	})
}

// What expired while it waited says what it waited for. On a slow machine it may expire before a worker has looked, and
// has waited for nothing then: the next lives twice as long.
func TestExpiryNamesWhatItWaitedFor(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		w.bring("slow", delivered)
		id := ""
		for life, deferred := 300*time.Millisecond, false; !deferred; life *= 2 {
			id = w.accept(func(n *notification.Notification) {
				n.Category, n.ExpiresAt = "slow", time.Now().Add(life)
			}).ID
			w.until("the expiry", func(*dispatch.Grant) dispatch.Outcome { return delivered }, func() bool {
				status := w.explain(id).Status
				deferred = deferred || status == notification.StatusDeferred
				for partition := range partitions {
					if _, err := w.agendas.Sweep(t.Context(), partition); err != nil {
						t.Fatal(err)
					}
				}
				return status == notification.StatusExpired
			})
		}
		said, _, _ := strings.Cut(w.explain(id).Standing, "; filled by ") // which Postgres alone knows
		w.says("notification", said)
	})
}

// While a provider takes its time, its host is named, and since when it does; afterwards, what had held the delivery.
func TestWhereItIsBeingSentIsTold(t *testing.T) {
	t.Parallel()
	onBoth(t, func(_ *testing.T, w *world) {
		n := w.accept(func(n *notification.Notification) { n.To = "https://slow.example/hook" })
		g := w.grant()
		w.says("under way", w.explain(n.ID).Standing)
		w.settle(g, dispatch.Outcome{Disposition: dispatch.Failed, Reason: "permanent: 400"})
		w.says("failed", w.explain(n.ID).Standing)
	})
}
