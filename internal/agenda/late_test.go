package agenda_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/agenda"
)

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
