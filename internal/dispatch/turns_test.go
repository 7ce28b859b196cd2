package dispatch_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

// Only a partition that makes a round counts: else the rounds of the others would wait for nothing.
func TestTurnsEnd(t *testing.T) {
	t.Parallel()
	lostWhen := func(lost func(r dispatch.TakeRequest) bool) func(*store) {
		return func(s *store) {
			s.before = func(_ context.Context, r dispatch.TakeRequest) error {
				if lost(r) {
					return dispatch.ErrLost
				}
				return nil
			}
		}
	}
	tests := map[string]struct {
		arrange func(*store)
		look    time.Duration // when to look, after the start
		want    int
	}{
		"by a partition that waited for its turn, released what was due, and is idle": {
			arrange: func(s *store) {
				time.AfterFunc(100*time.Millisecond, func() { s.perform(0, "busy", burst(1000)) })
				lostWhen(func(r dispatch.TakeRequest) bool { return len(r.Release) > 0 })(s)
			},
			look: 10 * time.Second,
		},
		"by a partition that has lost its state, while it pauses": {
			arrange: lostWhen(func(r dispatch.TakeRequest) bool { return r.Partition > 0 }),
			look:    100 * time.Millisecond,
		},
		"by a loop that panicked, while it pauses": {
			arrange: func(s *store) {
				s.perform(1, "due1", func(dispatch.TakeRequest) (turn, bool) { return grant(nil), true })
			},
			look: 100 * time.Millisecond,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				for partition := 1; partition < 4; partition++ {
					s.wakeIn(partition, fmt.Sprint("due", partition), hold(time.Second))
				}
				test.arrange(s)
				cfg := dispatch.Config{Concurrency: 16, Partitions: 4, DrainTimeout: time.Hour}
				b := newBench(cfg, s, newGauge().slow(time.Minute))
				pass(test.look)
				if n := b.RoundsCounted(); n != test.want {
					t.Errorf("%d rounds are counted, want %d", n, test.want)
				}
				b.Stop()
			})
		})
	}
}
