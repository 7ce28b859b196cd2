package beat_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/internal/beat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Loops that began at different moments beat together, those of a longer interval at beats of a shorter one.
func TestTickersBeatTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		quarter := beat.NewTicker(250 * time.Millisecond)
		defer quarter.Stop()
		<-time.After(330 * time.Millisecond) // the second loop begins later
		whole := beat.NewTicker(time.Second)
		defer whole.Stop()
		<-quarter.C
		quarter.Next()
		for _, want := range []time.Duration{500, 750, 1000} {
			<-quarter.C
			quarter.Next()
			if got := time.Since(began); got != want*time.Millisecond {
				t.Errorf("a beat after %s, want %d ms", got, want)
			}
		}
		<-whole.C
		whole.Next()
		if got := time.Since(began); got != time.Second {
			t.Errorf("the first beat of the longer interval after %s, want 1s", got)
		}
	})
}

// A beat that comes while its loop works waits for it; more than one do not add up.
func TestABeatWaitsForItsLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ticker := beat.NewTicker(time.Second)
		defer ticker.Stop()
		for _, step := range []struct{ at, works time.Duration }{
			{at: time.Second, works: 1300 * time.Millisecond},
			{at: 2300 * time.Millisecond},
			{at: 3 * time.Second},
			{at: 4 * time.Second, works: 3100 * time.Millisecond},
			{at: 7100 * time.Millisecond},
			{at: 8 * time.Second},
		} {
			<-ticker.C
			ticker.Next()
			if got := time.Since(began); got != step.at {
				t.Errorf("a beat after %s, want %s", got, step.at)
			}
			<-time.After(step.works)
		}
	})
}

// No interval is no wait.
func TestUntil(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		<-time.After(300 * time.Millisecond)
		for interval, want := range map[time.Duration]time.Duration{
			0: 0, -time.Second: 0, time.Second: 700 * time.Millisecond, 200 * time.Millisecond: 100 * time.Millisecond,
		} {
			if got := beat.Until(interval); got != want {
				t.Errorf("until the next of %s: %s, want %s", interval, got, want)
			}
		}
	})
}

// A process that spreads its looks beats at other moments, at the same interval.
//
//nolint:paralleltest // The phase is the process's.
func TestSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		beat.Spread()
		defer beat.Reset()
		ticker := beat.NewTicker(time.Second)
		defer ticker.Stop()
		began := time.Now()
		<-ticker.C
		ticker.Next()
		first := time.Since(began)
		if first > time.Second {
			t.Errorf("the first beat comes after %s", first)
		}
		<-ticker.C
		if got := time.Since(began) - first; got != time.Second {
			t.Errorf("the second beat comes after %s", got)
		}
	})
}
