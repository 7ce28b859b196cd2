package agenda_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
)

// When nobody could sweep a partition for a while, nobody could settle either: those who live get a truce, once, also
// where sweeps are always far apart.
func TestLeasesAreSparedAfterAGap(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for _, gaps := range [][]time.Duration{{lease + s, s, 2 * s, s, s}, {lease + s, 7 * s}} {
		w := setup(t, agenda.Settings{})
		w.sweepAfterGap() // the first ever
		w.accept(agenda.Entry{})
		w.serve()
		for i, gap := range gaps {
			w.advance(gap)
			if ended := w.sweepAfterGap().LeasesEnded; ended == 1 != (i == len(gaps)-1) {
				t.Errorf("%d leases ended at sweep %d of %v", ended, i, gaps)
			}
		}
	}
}
