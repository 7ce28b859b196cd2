package desk_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

const (
	// crowd is how many users a random world has.
	crowd = 12
	// soon and late are waits of which one ends while a world is watched, and one does not.
	soon, late = 300 * time.Millisecond, time.Hour
	// watched is how long after the look-up a slot that the look-up names must be used.
	watched = 700 * time.Millisecond
	// prompt is how long after its slot something goes of which can be said that it goes first.
	prompt = 30 * time.Millisecond
	// atOnce is how much later than the first something may have come due to count as due at the same moment.
	atOnce = 2 * time.Millisecond
	// ahead is how much earlier than its slot something may be granted.
	ahead = 20 * time.Millisecond
)

// What the desk says of users in random states is what then happens: nothing of what is paused or opted out goes, the
// one that is named as the first goes first and not before its moment, and a new one goes at once where that is said.
func TestTheDeskSaysWhatThenHappens(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(_ *testing.T, w *world) {
				random := rand.New(rand.NewPCG(seed, 15))
				w.randomly(random)
				said := w.sayAll()
				went := w.watch(said)
				for user, u := range said {
					for _, c := range u.Categories {
						w.check(u, &c, went[user+" "+c.Category])
					}
				}
				w.checkNew()
			})
		})
	}
}

// randomly brings users into random states.
func (w *world) randomly(random *rand.Rand) {
	w.Helper()
	pick := func(names []string) string { return names[random.IntN(len(names))] }
	for i := range crowd {
		user := "user" + strconv.Itoa(i)
		if random.IntN(4) == 0 {
			w.own[user] = []throttle.Rule{{Max: 1, Per: 500 * time.Millisecond}}
		}
		for range random.IntN(5) {
			w.accept(func(n *notification.Notification) {
				n.UserID, n.Category = user, pick(byDay())
				n.Channel = notification.Channel(pick([]string{"log", "webhook"}))
				n.Priority = notification.Priority(1 + random.IntN(4))
				if random.IntN(4) == 0 {
					n.SendAt = time.Now().Add([]time.Duration{soon, late}[random.IntN(2)])
				}
			})
		}
	}
	w.look()
	for _, g := range w.granted {
		w.settle(g, outcomes[random.IntN(len(outcomes))])
	}
	w.granted = nil
	if random.IntN(2) == 0 {
		w.pause(control.Category, pick(byDay()))
	}
	if random.IntN(2) == 0 {
		w.pause(control.Channel, pick([]string{"log", "webhook"}))
	}
	if random.IntN(3) == 0 {
		w.pause(control.Partition, strconv.Itoa(random.IntN(partitions)))
	}
	for i := range crowd {
		if w.users != nil && random.IntN(4) == 0 {
			err := w.users.SetPreferences(w.Context(), "user"+strconv.Itoa(i),
				&notification.Preferences{OptOutCategories: []string{pick(byDay())}}, notification.AnyVersion)
			if err != nil {
				w.Fatal(err)
			}
		}
	}
	w.look() // backlogs are blocked, and what is paused is held
	for _, g := range w.granted {
		w.settle(g, delivered)
	}
	w.granted = nil
}

// outcomes are what may become of an attempt.
var outcomes = []dispatch.Outcome{
	delivered,
	{Disposition: dispatch.Failed, Reason: "permanent: 400", Failure: true},
	{Disposition: dispatch.Retry, Reason: "transient: 503", Failure: true, RetryAfter: soon},
	{Disposition: dispatch.Retry, Reason: "transient: 503", Failure: true, RetryAfter: late},
	{Disposition: dispatch.Retry, Reason: "throttled: provider_budget", Untried: true, Refund: true, RetryAfter: soon},
	{Disposition: dispatch.Retry, Reason: "throttled: breaker_open", Untried: true, Refund: true, RetryAfter: late},
}

// sayAll looks up every user.
func (w *world) sayAll() map[string]*desk.User {
	w.Helper()
	said := map[string]*desk.User{}
	for i := range crowd {
		user := "user" + strconv.Itoa(i)
		if u, err := w.desk.User(w.Context(), user); err == nil {
			said[user] = u
		} else {
			w.Fatalf("look up %s: %v", user, err)
		}
	}
	return said
}

// watch delivers what is granted, until everything that was said to go soon has gone. It returns the grants by user and
// category, in their order.
func (w *world) watch(said map[string]*desk.User) map[string][]*dispatch.Grant {
	w.Helper()
	until := time.Now().Add(watched)
	went := map[string][]*dispatch.Grant{}
	w.until("what was said to go soon", func(g *dispatch.Grant) dispatch.Outcome {
		went[g.UserID+" "+g.Category] = append(went[g.UserID+" "+g.Category], g)
		return delivered
	}, func() bool {
		for user, u := range said {
			for _, c := range u.Categories {
				soon := len(c.Waiting) > 0 && c.NextAt != nil && c.NextAt.Before(until)
				if soon && len(went[user+" "+c.Category]) == 0 {
					return false
				}
			}
		}
		return time.Now().After(until)
	})
	return went
}

// check compares what was said of a category with what went.
func (w *world) check(u *desk.User, c *desk.UserCategory, went []*dispatch.Grant) {
	w.Helper()
	what := fmt.Sprintf("%s in %s (%s: %s)", u.UserID, c.Category, c.State, c.Standing)
	held := slices.DeleteFunc(slices.Clone(c.Waiting), func(item desk.WaitingItem) bool {
		return !w.isPaused(control.Channel, item.Channel)
	})
	if len(held) > 0 && len(held) < len(c.Waiting) {
		return // what is on a paused channel counts as going, so the others may go before they were said to
	}
	if c.NextAt == nil || len(c.Waiting) == 0 {
		if len(went) > 0 {
			w.Errorf("%s: %s went at %s", what, went[0].Notification.ID, went[0].AdmittedAt)
		}
		return
	}
	if len(went) == 0 {
		return // it was not said to go soon
	}
	first := went[0]
	if first.AdmittedAt.Before(c.NextAt.Add(-ahead)) {
		w.Errorf("%s: %s went at %s, before %s", what, first.Notification.ID, first.AdmittedAt.UTC(), c.NextAt)
	}
	// On a slow machine others have come due by the time that somebody looks, and may be more urgent.
	cameDue := first.RepliedAt.Add(first.SlotIn)
	if first.AdmittedAt.After(c.NextAt.Add(prompt)) || cameDue.After(c.NextAt.Add(atOnce)) {
		return
	}
	due := []string{}
	for _, item := range c.Waiting {
		joins := item.Status == notification.StatusRetrying || item.Status == notification.StatusScheduled
		if item.ID == first.Notification.ID && joins && cameDue.After(c.NextAt.Add(-prompt)) {
			return // it came due at about the same moment, by Redis's clock before
		}
		if item.DeliverAt != nil && !item.DeliverAt.After(first.AdmittedAt.Add(ahead)) {
			due = append(due, item.ID)
		}
	}
	if !slices.Contains(due, first.Notification.ID) {
		w.Errorf("%s: %s went first at %s, want one of %v", what, first.Notification.ID, first.AdmittedAt.UTC(), due)
	}
}

// checkNew looks again, and has a new notification accepted where the desk says that it may go now: it goes, and is
// never deferred. What will go soon could go before it on a slow machine, and use up what the limits allow, so such
// users are left out.
func (w *world) checkNew() {
	w.Helper()
	asked := map[string]string{} // notification → what was said
	for user, u := range w.sayAll() {
		if slices.ContainsFunc(u.Categories, somethingGoesSoon) {
			continue
		}
		for _, c := range u.Categories {
			free := !w.isPaused(control.Channel, "log")
			if !c.MaySendNow || !free {
				continue
			}
			n := w.accept(func(n *notification.Notification) { n.UserID, n.Category = user, c.Category })
			asked[n.ID] = user + " in " + c.Category + ": " + c.Standing
		}
	}
	gone := map[string]bool{}
	w.until("what may go now", func(g *dispatch.Grant) dispatch.Outcome {
		gone[g.Notification.ID] = true
		return delivered
	}, func() bool {
		for id := range asked {
			if !gone[id] {
				return false
			}
		}
		return true
	})
	for id, said := range asked {
		if e := w.explain(id); e.Deferrals > 0 {
			w.Errorf("%s: %s was deferred: %+v", said, id, e.Timeline)
		}
	}
}

// somethingGoesSoon reports whether the desk expects something of a category to go within the test's time.
func somethingGoesSoon(c desk.UserCategory) bool {
	return slices.ContainsFunc(c.Waiting, func(item desk.WaitingItem) bool {
		return item.DeliverAt != nil && time.Until(*item.DeliverAt) < late/2
	})
}
