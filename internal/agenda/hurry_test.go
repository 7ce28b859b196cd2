package agenda_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
)

// waitsAs has n notifications of a user wait for a minute, for a reason.
func (w *world) waitsAs(user, reason string, n int) {
	w.t.Helper()
	for range n {
		w.accept(agenda.Entry{UserID: user})
	}
	for served := 0; served < n; served += len(w.grants) {
		w.grants = nil
		w.serve()
		if len(w.grants) == 0 {
			w.t.Fatalf("%d of %d came", served, n)
		}
		for _, g := range w.grants {
			if _, err := w.store.Settle(w.test.Context(), g, dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: reason, RetryAfter: time.Minute, Refund: true, Untried: true,
			}); err != nil {
				w.t.Fatalf("settle: %v", err)
			}
		}
	}
	w.grants = nil
}

// What waits because credentials were refused comes at once, however much it is, and nothing else does. Where another
// store keeps the notifications, it allows each before it comes.
func TestHurry(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason string
		comes  bool
	}{
		{reason: "throttled: channel_paused", comes: true},
		{reason: "credentials_refused: token.401", comes: true},
		{reason: "throttled: breaker_open"},
		{reason: "transient: 503"},
	} {
		for _, n := range []int{1, 250} {
			t.Run(fmt.Sprintf("%s %d", c.reason, n), func(t *testing.T) {
				t.Parallel()
				w := setup(t, agenda.Settings{})
				w.waitsAs("ada", c.reason, n)
				w.waitsAs("ben", "transient: 503", 3)
				var allowed []string
				for partition := range partitions {
					err := w.store.Hurry(t.Context(), partition, func(_ context.Context, ids []string) error {
						allowed = append(allowed, ids...)
						return nil
					}, w.usersOf(partition, "ada", "ben", "nobody")...)
					if err != nil {
						t.Fatal(err)
					}
				}
				want := 0
				if c.comes {
					want = n
				}
				slices.Sort(allowed)
				if got := len(slices.Compact(allowed)); got != want {
					t.Errorf("%d are allowed, want %d", got, want)
				}
				came := 0
				for range n/50 + 3 {
					w.grants = nil
					w.serve()
					came += len(w.grants)
				}
				if came != want {
					t.Errorf("%d came at once, want %d", came, want)
				}
			})
		}
	}
}

// A worker may take what has come before the rest was looked at.
func TestHurryBesideAWorker(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{})
	w.waitsAs("ada", "throttled: channel_paused", 250)
	came := 0
	serve := func(context.Context, []string) error {
		w.grants = nil
		w.serve()
		came += len(w.grants)
		return nil
	}
	if err := w.store.Hurry(t.Context(), w.store.PartitionOf("ada"), serve, "ada"); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		_ = serve(t.Context(), nil)
	}
	if came != 250 {
		t.Errorf("%d of 250 came at once", came)
	}
}

// usersOf are those of some users that are in a partition.
func (w *world) usersOf(partition int, users ...string) []string {
	return slices.DeleteFunc(users, func(user string) bool { return w.store.PartitionOf(user) != partition })
}
