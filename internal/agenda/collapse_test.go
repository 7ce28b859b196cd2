package agenda_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
)

// Of two with one collapse key the older never goes after the newer, by whatever way it comes back.
func TestTheOlderNeverGoesAfterTheNewer(t *testing.T) {
	t.Parallel()
	retry := dispatch.Outcome{Disposition: dispatch.Retry, Reason: "transient", Failure: true, RetryAfter: time.Second}
	held := dispatch.Outcome{
		Disposition: dispatch.Retry, Reason: "throttled: provider_budget", Refund: true, Untried: true,
		RetryAfter: time.Second,
	}
	returned := dispatch.Outcome{Disposition: dispatch.Returned, Reason: "late", Refund: true}
	for name, comeBack := range map[string]func(w *world){
		"a failure is not tried again":  func(w *world) { w.settle(retry) },
		"nor what waits for a provider": func(w *world) { w.settle(held) },
		"a late grant is not returned":  func(w *world) { w.settle(returned) },
		"a lease ends": func(w *world) {
			w.grants = w.grants[1:]
			w.advance(lease + time.Second)
			w.sweep()
		},
		"a lease ends, then a result": func(w *world) {
			w.advance(lease + time.Second)
			w.sweep()
			w.settle(retry)
		},
	} {
		for _, gone := range []bool{false, true} {
			when := map[bool]string{false: " while the newer waits", true: " when the newer has gone"}[gone]
			t.Run(name+when, func(t *testing.T) {
				t.Parallel()
				w := setup(t, agenda.Settings{})
				older := w.accept(agenda.Entry{CollapseKey: "k"})
				w.serve()
				newer := w.accept(agenda.Entry{CollapseKey: "k"})
				if gone {
					w.serve()
					w.grants[0], w.grants[1] = w.grants[1], w.grants[0]
					w.settle(delivered)
				}
				comeBack(w)
				if s := w.state(older); s.Status != notification.StatusReplaced || s.Reason != "collapse_key" {
					t.Errorf("the older is %s (%s)", s.Status, s.Reason)
				}
				w.advance(time.Minute)
				for _, g := range w.drain() {
					if g.Notification.ID != newer || gone {
						t.Errorf("%s was granted again", g.Notification.ID)
					}
				}
				if total := w.total(); total.Totals.Delivered != 1 || total.Totals.Replaced != 1 ||
					total.Retrying+total.Queued+total.Sending != 0 {
					t.Errorf("the counts are %+v", total)
				}
				if left := w.leftovers(); len(left) > 0 {
					t.Errorf("keys left: %v", left)
				}
			})
		}
	}
}

// An entry that comes late, with an earlier arrival, replaces nothing: it is replaced itself, whether the newer still
// waits.
func TestALateEntryIsReplacedItself(t *testing.T) {
	t.Parallel()
	for _, gone := range []bool{false, true} {
		w := setup(t, agenda.Settings{})
		newer := w.accept(agenda.Entry{CollapseKey: "k"})
		if gone {
			w.serve()
			w.settle(delivered)
		}
		w.advance(time.Second)
		older := w.accept(agenda.Entry{CollapseKey: "k", Arrival: w.now.Add(-time.Minute)})
		other := w.accept(agenda.Entry{CollapseKey: "other", Arrival: w.now.Add(-2 * time.Minute)})
		if s := w.state(older); s.Status != notification.StatusReplaced {
			t.Errorf("the late one is %s", s.Status)
		}
		w.drain()
		if s := w.state(newer); s.Status != notification.StatusDelivered {
			t.Errorf("the newer is %s", s.Status)
		}
		if s := w.state(other); s.Status != notification.StatusDelivered {
			t.Errorf("that of another key is %s", s.Status)
		}
		if total := w.total(); total.Totals.Accepted != 3 || total.Totals.Delivered != 2 || total.Totals.Replaced != 1 {
			t.Errorf("the counts are %+v", total)
		}
	}
}

// A notification whose hash was evicted is placed again: what is left of it under its collapse key is itself, and no
// newer one.
func TestNothingReplacesItself(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{})
	id := w.accept(agenda.Entry{CollapseKey: "k"})
	keys, err := w.client.Keys(t.Context(), "pacer:{push-*}:n:"+id).Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("the hash is one of %v (%v)", keys, err)
	}
	if err := w.client.Del(t.Context(), keys...).Err(); err != nil {
		t.Fatal(err)
	}
	w.accept(agenda.Entry{ID: id, CollapseKey: "k"}) // as the relay does
	w.drain()
	if s, total := w.state(id), w.total().Totals; s.Status != notification.StatusDelivered || total.Replaced != 0 {
		t.Errorf("it is %s (%s), and %d were replaced", s.Status, s.Reason, total.Replaced)
	}
}

// A replacement takes the place of what it replaces: a key that is renewed all the time is delivered when its turn
// comes.
func TestAReplacementTakesThePlace(t *testing.T) {
	t.Parallel()
	w := setup(t, oncePer3s)
	w.accept(agenda.Entry{ID: "first"})
	w.accept(agenda.Entry{ID: "key-0", CollapseKey: "k"})
	for i := range 4 {
		w.accept(agenda.Entry{ID: "other-" + strconv.Itoa(i)})
	}
	var got []string
	for i := 1; i <= 60; i++ { // 18 s
		w.serve()
		for len(w.grants) > 0 {
			got = append(got, w.grants[0].Notification.ID)
			w.settle(delivered)
		}
		w.advance(300 * time.Millisecond)
		w.accept(agenda.Entry{ID: "key-" + strconv.Itoa(i), CollapseKey: "k"})
	}
	if diff := cmp.Diff([]string{"first", "key-10", "other-0", "other-1", "other-2", "other-3"}, got); diff != "" {
		t.Errorf("delivered (-want +got):\n%s", diff)
	}
}
