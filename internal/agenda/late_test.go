package agenda_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
)

// A result that comes after its lease has ended is still the latest while nobody else has been granted the
// notification: it is written, and nothing is delivered twice.
func TestALateResultIsWrittenUnlessGrantedAnew(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		outcome dispatch.Outcome
		want    notification.Status
	}{
		"delivered": {outcome: delivered, want: notification.StatusDelivered},
		"failed": {
			outcome: dispatch.Outcome{Disposition: dispatch.Failed, Reason: "permanent"},
			want:    notification.StatusFailed,
		},
		"failed, no charge": {
			outcome: dispatch.Outcome{Disposition: dispatch.Failed, Reason: "permanent", Refund: true},
			want:    notification.StatusFailed,
		},
		"retry": {
			outcome: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "transient", Failure: true, RetryAfter: time.Hour,
			},
			want: notification.StatusRetrying,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, agenda.Settings{})
			id := w.accept(agenda.Entry{})
			w.serve()
			w.advance(lease + time.Second)
			if repairs := w.sweep(); repairs.LeasesEnded != 1 {
				t.Fatalf("repairs %+v, want one lease", repairs)
			}
			if s := w.settle(test.outcome); s.Stale {
				t.Fatal("it was not written")
			}
			if s := w.state(id); s.Status != test.want {
				t.Errorf("it is %s", s.Status)
			}
			w.serve()
			if len(w.grants) > 0 {
				t.Errorf("it was granted again")
			}
			if total := w.total(); total.Totals.Attempts != 1 || total.Queued+total.Deferred+total.Sending != 0 {
				t.Errorf("the counts are %+v", total)
			}
		})
	}
}

// When nobody could sweep a partition for a while, nobody could settle either: those who live get a truce, once.
func TestLeasesAreSparedAfterAGap(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{})
	w.sweepAfterGap() // the first ever
	w.accept(agenda.Entry{})
	w.serve()
	var ended []int
	look := func() { ended = append(ended, w.sweepAfterGap().LeasesEnded) }
	for _, gap := range []time.Duration{lease + time.Second, time.Second, 2 * time.Second, time.Second} {
		w.advance(gap)
		look()
	}
	w.advance(time.Second) // the truce is over
	look()
	if diff := cmp.Diff([]int{0, 0, 0, 0, 1}, ended); diff != "" {
		t.Errorf("leases ended at each sweep (-want +got):\n%s", diff)
	}
}

// Sweeps that are always far apart spare a lease once, not for ever.
func TestSlowSweepsEndLeases(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{})
	w.sweepAfterGap()
	w.accept(agenda.Entry{})
	w.serve()
	w.advance(lease + time.Second)
	ended := 0
	for range 3 {
		ended += w.sweepAfterGap().LeasesEnded
		w.advance(7 * time.Second)
	}
	if ended != 1 {
		t.Errorf("%d leases ended after three sweeps", ended)
	}
}

func TestExtendedLeasesGoOn(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{})
	w.accept(agenda.Entry{})
	w.serve()
	for range 3 {
		w.advance(lease - time.Second)
		if err := w.store.Extend(t.Context(), w.grants[0]); err != nil {
			t.Fatal(err)
		}
		if n := w.sweep().LeasesEnded; n != 0 {
			t.Fatalf("%d leases ended", n)
		}
	}
	w.advance(lease + time.Second)
	if n := w.sweep().LeasesEnded; n != 1 {
		t.Fatalf("%d leases ended, want one: nobody extended it", n)
	}
	// Of what is not this grant's any more nothing is extended.
	if err := w.store.Extend(t.Context(), w.grants[0]); err != nil {
		t.Fatal(err)
	}
	if total := w.total(); total.Sending != 0 {
		t.Errorf("the counts are %+v", total)
	}
}
