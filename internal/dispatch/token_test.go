package dispatch_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

// settles is the signature of a store's Settle.
type settles func(context.Context, *dispatch.Grant, dispatch.Outcome) (dispatch.Settlement, error)

// crowd is a store with a wake-up of each of n users, and writes results as told.
func crowd(n int, settle settles) *store {
	s := newStore()
	s.settle = settle
	for i := range n {
		s.wake(fmt.Sprint(i), grant(granted()))
	}
	return s
}

// While results are being written, others are sent: at most as many again as may be in flight.
func TestResultsAreWrittenBesideOtherDeliveries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const concurrency, n = 3, 40
		written := make(chan struct{})
		s := crowd(n, func(context.Context, *dispatch.Grant, dispatch.Outcome) (dispatch.Settlement, error) {
			<-written
			return dispatch.Settlement{}, nil
		})
		b := newBench(dispatch.Config{Concurrency: concurrency, Hold: time.Hour}, s, sends)
		b.wantTokens(t, concurrency)
		if sent := len(b.journal.sends()); sent != 2*concurrency {
			t.Errorf("%d were sent while no result was written, want %d", sent, 2*concurrency)
		}
		close(written)
		pass(time.Second)
		b.wantTokens(t, 0)
		if sent := len(b.journal.sends()); sent != n {
			t.Errorf("%d were sent in the end, want %d", sent, n)
		}
		b.Stop()
	})
}

// While results can't be written, nothing more is sent than what was already under way. When they can, all goes on.
func TestNothingIsSentThatCantBeSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const concurrency, n = 3, 40
		back := time.Now().Add(10 * time.Second)
		s := crowd(n, func(context.Context, *dispatch.Grant, dispatch.Outcome) (dispatch.Settlement, error) {
			pass(time.Millisecond)
			if time.Now().Before(back) {
				return dispatch.Settlement{}, errAway
			}
			return dispatch.Settlement{}, nil
		})
		b := newBench(dispatch.Config{Concurrency: concurrency, Hold: time.Hour}, s, sends)
		pass(9 * time.Second)
		synctest.Wait()
		if sent := len(b.journal.sends()); sent > 2*concurrency || b.InFlight() != sent {
			t.Errorf("%d were sent and %d are in flight while no result could be written; want at most %d, and all of them",
				sent, b.InFlight(), 2*concurrency)
		}
		pass(2 * time.Second)
		b.wantTokens(t, 0)
		if sent := len(b.journal.sends()); sent != n {
			t.Errorf("%d were sent in the end, want %d", sent, n)
		}
		b.Stop()
	})
}
