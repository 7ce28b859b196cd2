package mailbox_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/mailbox"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// running lets put ones ask at once, and counts those that are let go.
func (w *world) running(n int, e mailbox.Entry) (granted int) {
	w.t.Helper()
	for range n {
		tick := tickOf(w.put(e))
		tick.UserID = "ada"
		if w.ask(tick, true).Granted != nil {
			granted++
		}
	}
	return granted
}

// A bypass that is taken back leaves the window as full as it was, however often: of a channel that is paused, say.
func TestRefundedBypassLeavesTheWindowFull(t *testing.T) {
	t.Parallel()
	terms := mailbox.Terms{Plan: throttle.Plan{
		Rules: []throttle.Rule{{Max: 3, Per: time.Hour}},
		Cap:   []throttle.Rule{{Max: 4, Per: time.Hour, Kind: throttle.KindCap}},
	}, BypassFrom: int(notification.PriorityCritical)}
	w := setup(t, terms)
	if n := w.running(3, mailbox.Entry{}); n != 3 {
		t.Fatalf("%d of 3 are let go", n)
	}
	w.grants = nil
	critical := tickOf(w.put(mailbox.Entry{Priority: notification.PriorityCritical}))
	for range 5 {
		w.advance(time.Second)
		if w.ask(critical, true).Granted == nil {
			t.Fatal("the critical one has to wait")
		}
		w.settle(dispatch.Outcome{Fate: dispatch.Retry, Reason: "throttled: paused_by_operator", RetryAfter: time.Second, Refund: true, Untried: true})
	}
	if n := w.running(3, mailbox.Entry{}); n != 0 {
		t.Errorf("%d more than the limit are let go", n)
	}
}

// A limit that was lowered and raised again finds everything that was admitted meanwhile.
func TestLoweredAndRaisedLimitForgetsNothing(t *testing.T) {
	t.Parallel()
	ten := []throttle.Rule{{Max: 10, Per: time.Hour}}
	for name, lowered := range map[string]throttle.Plan{
		"policy":                   {Rules: []throttle.Rule{{Max: 1, Per: 5 * time.Second}}},
		"the user's own":           {Rules: []throttle.Rule{{Max: 1, Per: 5 * time.Second}}, Dormant: ten},
		"the user's own: no limit": {Dormant: ten},
		"fixed window":             {Algorithm: throttle.FixedWindow, Rules: []throttle.Rule{{Max: 1, Per: 5 * time.Second}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raised := mailbox.Terms{Plan: throttle.Plan{Algorithm: lowered.Algorithm, Rules: ten}, MaxDefer: 24 * time.Hour}
			w := setup(t, raised)
			if n := w.running(8, mailbox.Entry{}); n != 8 {
				t.Fatalf("%d of 8 are let go", n)
			}
			w.terms.Plan = lowered
			for range 2 {
				w.advance(5 * time.Second)
				if n := w.running(1, mailbox.Entry{}); n != 1 {
					t.Fatal("under the lowered limit none is let go")
				}
			}
			w.terms = raised
			w.advance(5 * time.Second)
			if n := w.running(3, mailbox.Entry{}); n != 0 {
				t.Errorf("%d more than ten are let go within a minute", n)
			}
		})
	}
}

// A crowd of bypasses makes no log long.
func TestBypassesMakeNoLongLog(t *testing.T) {
	t.Parallel()
	w := setup(t, mailbox.Terms{Plan: throttle.Plan{Rules: []throttle.Rule{{Max: 3, Per: time.Hour}}}, BypassFrom: mailbox.BypassAll})
	w.running(300, mailbox.Entry{})
	const most = 3 + 64 + 2 // the limit, the room for refunds, and how deep the log is
	key := mailbox.LanePrefix(w.store.LaneOf("ada")) + "l:chat:ada"
	if n := w.client.ZCard(t.Context(), key).Val(); n == 0 || n > most {
		t.Errorf("the log holds %d, want at most %d", n, most)
	}
}

// What a provider asked to slow down comes back behind what has not been tried; other retries keep their places.
func TestThrottledOnesComeBackBehind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		outcome dispatch.Outcome
		want    []string
	}{
		"throttled": {dispatch.Outcome{Fate: dispatch.Retry, RetryAfter: 4 * time.Second, Behind: true}, []string{"n2", "n3", "n4", "n5", "n1"}},
		"failed":    {dispatch.Outcome{Fate: dispatch.Retry, RetryAfter: 4 * time.Second, Failure: true}, []string{"n2", "n1", "n3", "n4", "n5"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, mailbox.Terms{Plan: throttle.Plan{Rules: []throttle.Rule{{Max: 1, Per: 2 * time.Second}}}})
			w.rush(5)
			if w.grants[0].Notification.ID != "n1" {
				t.Fatalf("first goes %s", w.grants[0].Notification.ID)
			}
			w.settle(c.outcome)
			var got []string
			for _, g := range w.drain() {
				got = append(got, g.Notification.ID)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}
