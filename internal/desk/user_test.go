package desk_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

func in(category string) func(*notification.Notification) {
	return func(n *notification.Notification) { n.Category = category }
}

// Each thing that can hold a notification back, in both look-ups.
func TestTheCauseIsNamed(t *testing.T) {
	t.Parallel()
	retry := dispatch.Outcome{
		Disposition: dispatch.Retry, Reason: "transient: 503", Reply: "busy", Failure: true, RetryAfter: time.Hour,
	}
	held := dispatch.Outcome{
		Disposition: dispatch.Retry, Reason: "throttled: provider_budget", Untried: true, Refund: true,
		RetryAfter: time.Hour,
	}
	for _, c := range []struct {
		name string
		// bring has something of ada wait in the category, and returns its id.
		bring    func(w *world) string
		category string
		state    desk.State
		maySend  bool
		moment   bool // whether the next moment is known
	}{
		{
			name: "Retrying", category: "free", state: desk.StateRetrying, maySend: true, moment: true,
			bring: func(w *world) string { return w.bring("free", retry) },
		},
		{
			name: "Held", category: "free", state: desk.StateHeld, maySend: true, moment: true,
			bring: func(w *world) string { return w.bring("free", held) },
		},
		{
			name: "RetryingLongerThanMaxDefer", category: "brief", state: desk.StateRetrying, moment: true,
			bring: func(w *world) string { return w.bring("brief", retry) },
		},
		{
			name: "Deferred", category: "slow", state: desk.StateDeferred, moment: true,
			bring: func(w *world) string { return w.deferred("slow") },
		},
		{
			name: "QuietHours", category: "night", state: desk.StateDeferred, moment: true,
			bring: func(w *world) string {
				n := w.accept(in("night"))
				w.until("a deferral", func(*dispatch.Grant) dispatch.Outcome { return delivered }, func() bool {
					return w.category(w.user("ada"), "night").Deferred == 1
				})
				return n.ID
			},
		},
		{
			name: "Scheduled", category: "free", state: desk.StateScheduled, maySend: true, moment: true,
			bring: func(w *world) string {
				return w.accept(func(n *notification.Notification) { n.SendAt = time.Now().Add(time.Hour) }).ID
			},
		},
		{
			name: "CategoryPaused", category: "slow", state: desk.StatePaused,
			bring: func(w *world) string {
				id := w.deferred("slow")
				w.pause(control.Category, "slow")
				return id
			},
		},
		{
			name: "ChannelPaused", category: "free", state: desk.StatePaused,
			bring: func(w *world) string {
				w.pause(control.Channel, "log")
				return w.accept(nil).ID
			},
		},
		{
			name: "PartitionPaused", category: "free", state: desk.StatePaused,
			bring: func(w *world) string {
				for partition := range partitions {
					w.pause(control.Partition, strconv.Itoa(partition))
				}
				return w.accept(nil).ID
			},
		},
		{
			name: "RetryUnderAPause", category: "free", state: desk.StatePaused,
			bring: func(w *world) string {
				id := w.bring("free", retry)
				w.pause(control.Category, "free")
				return id
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, w *world) {
				id := c.bring(w)
				u, e := w.user("ada"), w.explain(id)
				got := w.category(u, c.category)
				if got.State != c.state || got.MaySendNow != c.maySend || (got.NextAt != nil) != c.moment ||
					(e.DeliverAt != nil) != c.moment || e.Ahead < 0 {
					t.Errorf("the category is %+v, explained %+v", got, e)
				}
				if got.NextAt != nil && !got.NextAt.After(time.Now()) {
					t.Errorf("the next goes at %s, which has passed", got.NextAt)
				}
				w.says("user", u.Standing)
				w.says("category", got.Standing)
				w.says("notification", e.Standing)
				for _, item := range got.Waiting {
					if (item.DeliverAt != nil) != c.moment {
						t.Errorf("%s waits until %v", item.ID, item.DeliverAt)
					}
				}
				if c.state == desk.StatePaused && (len(u.Pauses) == 0 || u.Pauses[0].By != "grace" || e.Pause == nil) {
					t.Errorf("the pauses are %+v, of the notification %+v", u.Pauses, e.Pause)
				}
				if v, err := w.desk.View(t.Context(), id); err != nil || v.DeliverAt.IsZero() == c.moment {
					t.Errorf("the API says that it goes at %s, %v", v.DeliverAt, err)
				}
			})
		})
	}
}

// A user who is not to be disturbed now, and for whom nothing waits, may send when the quiet hours end.
func TestQuietHoursAreNamedAhead(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		n := w.accept(func(n *notification.Notification) {
			n.Category, n.SendAt = "night", time.Now().Add(time.Hour)
		})
		if err := w.store.Cancel(t.Context(), n.ID); err != nil {
			t.Fatal(err)
		}
		c := w.category(w.user("ada"), "night")
		if c.State != desk.StateLimited || c.MaySendNow || c.NextAt == nil || !c.NextAt.Equal(night[0].Until.Time()) {
			t.Errorf("the category is %+v", c)
		}
		w.says("category", c.Standing)
		if until := night[0].Until.Time().UTC().Add(20700 * time.Second).Format("15:04"); !strings.Contains(c.Standing, until) {
			t.Errorf("%s: want the clock of the time zone, %s", c.Standing, until)
		}
	})
}

// bring has a notification granted and settled.
func (w *world) bring(category string, o dispatch.Outcome) string {
	w.Helper()
	n := w.accept(in(category))
	w.settle(w.grant(), o)
	return n.ID
}

// deferred has a notification wait behind one that was delivered.
func (w *world) deferred(category string) string {
	w.Helper()
	w.bring(category, delivered)
	n := w.accept(in(category))
	w.until("a deferral", func(*dispatch.Grant) dispatch.Outcome { return delivered }, func() bool {
		return w.category(w.user("ada"), category).Deferred == 1
	})
	return n.ID
}

// A category or channel that the user opted out of says so, and nothing of it may be sent.
func TestOptOutIsNamed(t *testing.T) {
	t.Parallel()
	w := onPostgres(t)
	err := w.users.SetPreferences(t.Context(), "ada", &notification.Preferences{OptOutCategories: []string{"free"}},
		notification.AnyVersion)
	if err != nil {
		t.Fatal(err)
	}
	u := w.user("ada")
	if c := w.category(u, "free"); c.State != desk.StateOptedOut || c.MaySendNow || c.NextAt != nil {
		t.Errorf("the category is %+v", c)
	}
	w.says("user", u.Standing)
	if !slices.Equal(u.Preferences.OptOutCategories, []string{"free"}) {
		t.Errorf("the preferences are %+v", u.Preferences)
	}
}

// The user's own limits stand beside those of the policy.
func TestOwnLimitsStandBesideThePolicys(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		w.own["ada"] = []throttle.Rule{{Max: 5, Per: time.Minute}}
		ada, ben := w.category(w.user("ada"), "slow").Limits, w.category(w.user("ben"), "slow").Limits
		if ada.InForce != "user" || !slices.Equal(ada.Own, []string{"limit 5/1m"}) ||
			!slices.Equal(ada.Policy, []string{"limit 1/1h"}) || ada.Rules[0].Rule != "limit 5/1m" {
			t.Errorf("ada's limits are %+v", ada)
		}
		if ben.InForce != "policy" || len(ben.Own) > 0 || ben.Rules[0].Rule != "limit 1/1h" {
			t.Errorf("ben's limits are %+v", ben)
		}
	})
}

// A failure stands in the latest with its reason and reply, on the device too, and in the user's sentence.
func TestFailuresAndDevices(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		phone := &notification.Device{UserID: "ada", ID: "phone", Channel: "log", Target: "secret-target"}
		if err := w.store.PutDevice(t.Context(), phone); err != nil {
			t.Fatal(err)
		}
		n := w.accept(func(n *notification.Notification) { n.To = "" })
		delivery := notification.Delivery{
			DeviceID: "phone", Attempts: 1, Ended: true, Outcome: "target_gone: 410", Reply: "unregistered",
		}
		if err := errors.Join(w.store.NoteDelivery(t.Context(), n, delivery),
			w.store.Deactivate(t.Context(), phone, time.Time{}, "410")); err != nil {
			t.Fatal(err)
		}
		w.settle(w.grant(), dispatch.Outcome{
			Disposition: dispatch.Failed, Reason: "target_gone: 410", Reply: "unregistered", Failure: true,
		})
		u, e := w.user("ada"), w.explain(n.ID)
		w.says("user", u.Standing)
		w.says("notification", e.Standing)
		if len(u.Latest) != 1 || u.Latest[0].Reply != "unregistered" || u.Latest[0].Reason != "target_gone: 410" {
			t.Errorf("the latest are %+v", u.Latest)
		}
		if len(u.Devices) != 1 || u.Devices[0].Active || u.Devices[0].Reason != "410" || u.Devices[0].Last == nil ||
			u.Devices[0].Last.Reply != "unregistered" || u.Devices[0].Last.NotificationID != n.ID {
			t.Errorf("the devices are %+v", u.Devices)
		}
		if e.Reply != "unregistered" || len(e.Devices) != 1 ||
			e.Devices[0].Outcome != "target_gone: 410" {
			t.Errorf("explained: %+v", e)
		}
		text, err := json.Marshal([]any{u, e})
		if err != nil || strings.Count(string(text), "secret-target") > 0 || strings.Contains(string(text), "0001-01-01") ||
			strings.Contains(string(text), "null") {
			t.Errorf("the JSON is %s, %v", text, err)
		}
		for _, step := range e.Timeline {
			if strings.Contains(step.Detail, "410") {
				t.Errorf("the timeline repeats %+v", step)
			}
		}
	})
}

// One that expired for max_defer says when its slot would have been.
func TestMaxDeferSaysWhichSlot(t *testing.T) {
	t.Parallel()
	onBoth(t, func(_ *testing.T, w *world) {
		w.bring("brief", delivered)
		n := w.accept(in("brief"))
		w.until("an end", func(*dispatch.Grant) dispatch.Outcome { return delivered }, func() bool {
			return w.explain(n.ID).Status == notification.StatusExpired
		})
		w.says("notification", w.explain(n.ID).Standing)
		w.says("user", w.user("ada").Standing)
	})
}

// The wait for a provider counts for max_defer, other than the back-off after a failure.
func TestAHoldLongerThanMaxDeferExpires(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		e := w.explain(w.bring("brief", dispatch.Outcome{
			Disposition: dispatch.Retry, Reason: "throttled: provider_budget", Untried: true, Refund: true,
			RetryAfter: time.Hour,
		}))
		w.says("notification", e.Standing)
		if e.Status != notification.StatusRetrying || e.DeliverAt != nil {
			t.Errorf("explained as %+v", e)
		}
	})
}

// Why a webhook does not arrive may be its endpoint's health: it is said, unless the notification was delivered.
func TestWordsOfAWebhookEndpoint(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		const url, words = "https://example.com/hook", "webhook endpoint acme fails since yesterday"
		w.endpoints = map[string]string{url: words, "target": "never said"}
		hook := func(n *notification.Notification) { n.Channel, n.To = notification.ChannelWebhook, url }
		n, other := w.accept(hook), w.accept(nil)
		w.says("one that waits", w.explain(n.ID).Standing)
		if text := w.explain(other.ID).Standing; strings.Contains(text, "never said") {
			t.Errorf("another channel: %s", text)
		}
		for range 2 {
			w.settle(w.grant(), dispatch.Outcome{Disposition: dispatch.Delivered, Reason: "delivered"})
		}
		if text := w.explain(n.ID).Standing; text != "delivered" {
			t.Errorf("delivered: %s", text)
		}
	})
}

// Who looks for one thing and names another is told.
func TestLookedUpAsTheOther(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		n := w.accept(nil)
		if _, err := w.desk.Explain(t.Context(), "ada"); !errors.Is(err, notification.ErrNotFound) ||
			err.Error() != "ada is a user, not a notification: use dispatcher user ada" {
			t.Errorf("to explain a user gives %v", err)
		}
		if _, err := w.desk.User(t.Context(), n.ID); !errors.Is(err, notification.ErrNotFound) ||
			err.Error() != n.ID+" is a notification, not a user: use dispatcher explain "+n.ID {
			t.Errorf("to look up a notification as a user gives %v", err)
		}
		if _, err := w.desk.Explain(t.Context(), "nobody"); !errors.Is(err, notification.ErrNotFound) ||
			err.Error() != "no such notification" {
			t.Errorf("to explain nobody gives %v", err)
		}
		u := w.user("nobody")
		if u.Known || !strings.HasPrefix(u.Standing, "nothing is known") {
			t.Errorf("nobody is %+v", u)
		}
	})
}
