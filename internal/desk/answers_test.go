package desk_test

import (
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/notification"
)

// answer is what is said of a waiting notification: when it goes, and why then; or for which reason it will end, at no
// moment.
type answer struct{ at, reason string }

func answerOf(at time.Time, reason string, now time.Time) answer {
	switch {
	case at.IsZero():
		return answer{"never", reason}
	case at.Before(now.Add(time.Minute)): // which has come when the next is asked
		return answer{at: "now"}
	}
	return answer{at.UTC().Format(time.RFC3339Nano), reason}
}

// One notification asked about in six ways is always answered the same, in 40 random states: what goes, what waits for
// quiet hours, what expires or has max_defer against it, and what is paused.
func TestSixWaysOneAnswer(t *testing.T) {
	t.Parallel()
	onBoth(t, func(_ *testing.T, w *world) {
		const states = 40
		random := rand.New(rand.NewPCG(49, 6))
		for i := range states {
			w.someWait("user"+strconv.Itoa(i), random)
		}
		w.look()
		doomed := 0
		for i := range states {
			doomed += w.sixWays("user" + strconv.Itoa(i))
		}
		diff, err := desk.Diff(w.Context(), w.agendas, w.agendas)
		if err != nil {
			w.Fatal(err)
		}
		for _, d := range diff.Waiting {
			if d.Same != d.Waiting {
				w.Errorf("against itself, %s differs: %+v", d.Category, d)
			}
		}
		if doomed < states/8 {
			w.Errorf("only %d are doomed", doomed)
		}
	})
}

// someWait has some notifications of a user wait.
func (w *world) someWait(user string, random *rand.Rand) {
	names := w.CategoryNames()
	for range 1 + random.IntN(6) {
		w.accept(func(n *notification.Notification) {
			n.UserID, n.Category = user, names[random.IntN(len(names))]
			n.Priority = notification.Priority(1 + random.IntN(4))
			switch random.IntN(5) {
			case 0, 1:
				n.ExpiresAt = time.Now().Add(30 * time.Minute)
			case 2:
				n.SendAt = time.Now().Add(2 * time.Hour)
			}
		})
	}
}

// sixWays asks about all that waits for a user, and returns how many will end instead of going.
func (w *world) sixWays(user string) (doomed int) {
	w.Helper()
	ctx, now := w.Context(), time.Now()
	list, err := w.many().List(ctx, url.Values{"user": {user}})
	if err != nil {
		w.Fatal(err)
	}
	items := map[string]desk.WaitingItem{}
	for _, c := range w.user(user).Categories {
		for _, item := range c.Waiting {
			items[item.ID] = item
		}
	}
	for i := range list.Items {
		listed := &list.Items[i]
		if !listed.Status.Waiting() {
			continue
		}
		v, err := w.store.View(ctx, listed.ID)
		if err != nil {
			w.Fatal(err)
		}
		asked := []notification.PromiseRequest{{Notification: &v.Notification, Accepted: true}}
		promises, err := outlook.Of(w.agendas).Promises(ctx, asked)
		if err != nil {
			w.Fatal(err)
		}
		e, item := w.explain(v.ID), items[v.ID]
		moment := func(at *time.Time) time.Time {
			if at == nil {
				return time.Time{}
			}
			return *at
		}
		want := answerOf(v.DeliverAt, v.Reason, now)
		for way, got := range map[string]answer{
			"list": answerOf(listed.DeliverAt, listed.Reason, now), "explain": answerOf(moment(e.DeliverAt), e.Reason, now),
			"user":    answerOf(moment(item.DeliverAt), want.reason, now), // which says the reason in words
			"promise": answerOf(promises[0].DeliverAt, promises[0].Reason, now),
		} {
			if got != want {
				w.Errorf("%s of %s is %v in the %s, the view says %v: %s", v.ID, v.Category, got, way, want, v.Detail)
			}
		}
		if item.WaitsFor == "" || want.at != "now" && !strings.HasPrefix(anyTime(e.Standing), anyTime(item.WaitsFor)) {
			w.Errorf("%s: the user's page says %q, explain %q", v.ID, item.WaitsFor, e.Standing)
		}
		if v.Doomed {
			doomed++
		}
	}
	return doomed
}
