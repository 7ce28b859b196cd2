package dispatch_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

// partitions responds to a sweep of each partition.
type partitions []func(ctx context.Context) (dispatch.Repairs, error)

func (p partitions) Partitions() int { return len(p) }

func (p partitions) Due(context.Context) ([]int, error) {
	due := make([]int, len(p))
	for i := range due {
		due[i] = i
	}
	return due, nil
}

func (p partitions) Sweep(ctx context.Context, partition int) (dispatch.Repairs, error) {
	return p[partition](ctx)
}

// each returns the same for each sweep.
func each(r dispatch.Repairs, err error) func(context.Context) (dispatch.Repairs, error) {
	return func(context.Context) (dispatch.Repairs, error) { return r, err }
}

func TestSweep(t *testing.T) {
	t.Parallel()
	repaired := dispatch.Repairs{LeasesEnded: 1, Expired: 2, Woken: 3}
	woken := dispatch.Repairs{Woken: 1}
	told := dispatch.Repairs{Accepted: []dispatch.Accepted{{Category: "chat", Count: 2}}}
	for name, test := range map[string]struct {
		partitions partitions
		fault      error
		reported   []dispatch.Repairs
	}{
		"nothing to repair": {partitions: partitions{each(dispatch.Repairs{}, nil), each(dispatch.Repairs{}, nil)}},
		"all kinds": {
			partitions: partitions{each(repaired, nil), each(dispatch.Repairs{}, nil), each(woken, nil)},
			reported:   []dispatch.Repairs{repaired, woken},
		},
		"each kind alone": {
			partitions: partitions{
				each(dispatch.Repairs{LeasesEnded: 1}, nil), each(dispatch.Repairs{Expired: 1}, nil),
				each(dispatch.Repairs{Woken: 1}, nil),
			},
			reported: []dispatch.Repairs{{LeasesEnded: 1}, {Expired: 1}, {Woken: 1}},
		},
		"what others accepted": {
			partitions: partitions{each(told, nil), each(dispatch.Repairs{}, nil)}, reported: []dispatch.Repairs{told},
		},
		// The partitions of a cluster lie on different shards: one that is away must not leave the others unrepaired.
		"a partition that is away": {
			partitions: partitions{each(dispatch.Repairs{}, errAway), each(dispatch.Repairs{}, nil), each(woken, nil)},
			fault:      errAway,
			reported:   []dispatch.Repairs{woken},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var reported []dispatch.Repairs
			l := &ledger{}
			sweeper := dispatch.NewSweeper(test.partitions, time.Second, func(r dispatch.Repairs) {
				reported = append(reported, r)
			}, l.logger(slog.LevelDebug))
			if err := sweeper.Sweep(t.Context()); !errors.Is(err, test.fault) {
				t.Errorf("Sweep gives %v, want %v", err, test.fault)
			}
			if diff := cmp.Diff(test.reported, reported); diff != "" {
				t.Errorf("reported repairs differ (-want +got):\n%s", diff)
			}
			if len(l.Lines()) != 0 {
				t.Errorf("an error that is returned is logged too: %v", l.Lines())
			}
			if err := dispatch.NewSweeper(test.partitions, time.Second, nil,
				l.logger(slog.LevelDebug)).Sweep(t.Context()); !errors.Is(err, test.fault) {
				t.Errorf("without anybody to report to, Sweep gives %v, want %v", err, test.fault)
			}
		})
	}
}

// The sweeper says once that the store is away and once that it is back, however long that lasts.
func TestSweeperRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var sweeps, away atomic.Int64
		l := &ledger{}
		sweeper := dispatch.NewSweeper(partitions{func(context.Context) (dispatch.Repairs, error) {
			sweeps.Add(1)
			if away.Load() > 0 {
				return dispatch.Repairs{}, errAway
			}
			return dispatch.Repairs{}, nil
		}}, time.Second, nil, l.logger(slog.LevelDebug))
		done := make(chan struct{})
		go func() {
			defer close(done)
			sweeper.Run(ctx)
		}()
		warned := `level=WARN msg="could not sweep a partition; retrying" error="the store is away"`
		back := `level=INFO msg="the sweeper reaches all partitions again"`
		var want []string
		for _, step := range []struct { // not under t.Run, which a bubble of synctest refuses
			name   string
			away   bool
			during time.Duration
			log    []string
		}{
			{name: "all is well", during: 10 * time.Second},
			{name: "the store is away for long", away: true, during: 60 * time.Second, log: []string{warned}},
			{name: "it is back", during: 10 * time.Second, log: []string{back}},
			{name: "it is away for one sweep", away: true, during: time.Second, log: []string{warned}},
			{name: "it is back for good", during: time.Second, log: []string{back}},
		} {
			away.Store(map[bool]int64{true: 1}[step.away])
			pass(step.during)
			synctest.Wait()
			want = append(want, step.log...)
			if diff := cmp.Diff(want, l.Lines()); diff != "" {
				t.Errorf("%s: log differs (-want +got):\n%s", step.name, diff)
			}
		}
		if n := sweeps.Load(); n != 82 {
			t.Errorf("swept %d times in 82 s, want once a second", n)
		}
		cancel()
		<-done
	})
}

// The end of the process is no fault of the store.
func TestSweeperEndsQuietly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l := &ledger{}
		calls := 0
		never := func(ctx context.Context) (dispatch.Repairs, error) {
			calls++
			<-ctx.Done()
			return dispatch.Repairs{}, ctx.Err()
		}
		done := make(chan struct{})
		sweeper := dispatch.NewSweeper(partitions{never, never, never}, time.Second, nil, l.logger(slog.LevelDebug))
		go func() {
			defer close(done)
			sweeper.Run(ctx)
		}()
		pass(3 * time.Second) // the first sweep is under way
		cancel()
		<-done
		if len(l.Lines()) != 0 {
			t.Errorf("it logs %v", l.Lines())
		}
		if calls != 1 {
			t.Errorf("%d partitions were swept after the end, want none", calls-1)
		}
	})
}

// A partition with more to repair than one sweep may is swept again at once, but not for ever: others wait too.
func TestAPartitionIsSweptUntilNothingIsLeft(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ more, sweeps int }{
		"three times": {more: 2, sweeps: 3},
		"for ever":    {more: 1 << 30, sweeps: 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			left, sweeps, other := test.more, 0, 0
			busy := func(context.Context) (dispatch.Repairs, error) {
				sweeps++
				left--
				return dispatch.Repairs{Expired: 100, More: left >= 0}, nil
			}
			quiet := func(context.Context) (dispatch.Repairs, error) { other++; return dispatch.Repairs{}, nil }
			s := dispatch.NewSweeper(partitions{busy, quiet}, time.Second, nil, slog.New(slog.DiscardHandler))
			if err := s.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if sweeps != test.sweeps || other != 1 {
				t.Errorf("swept %d times, the other partition %d times; want %d and once", sweeps, other, test.sweeps)
			}
		})
	}
}

// Whoever reads the log of a Redis that came back empty must not look for one that is away.
func TestSweeperSaysThatAPartitionIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l := &ledger{}
		lost := partitions{each(dispatch.Repairs{}, dispatch.ErrLost)}
		sweeper := dispatch.NewSweeper(lost, time.Second, nil, l.logger(slog.LevelDebug))
		done := make(chan struct{})
		go func() {
			defer close(done)
			sweeper.Run(ctx)
		}()
		pass(5 * time.Second)
		cancel()
		<-done
		want := `level=WARN msg="a partition has lost its state; the sweeper skips it until it is rebuilt"`
		if log := l.Lines(); len(log) != 1 || !strings.HasPrefix(log[0], want) {
			t.Errorf("it logs %q, want one line that begins with %s", log, want)
		}
	})
}

// quiet are partitions in which only some have something due.
type quiet struct {
	partitions

	due func() ([]int, error)
}

func (q quiet) Due(context.Context) ([]int, error) { return q.due() }

// Only partitions in which something is due are swept, and all of them once a minute. When the store does not say
// which, that is said as when a sweep fails.
func TestOnlyWhatIsDueIsSwept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var away atomic.Bool
		var idle, busy atomic.Int64
		count := func(n *atomic.Int64) func(context.Context) (dispatch.Repairs, error) {
			return func(context.Context) (dispatch.Repairs, error) { n.Add(1); return dispatch.Repairs{}, nil }
		}
		l := &ledger{}
		sweeper := dispatch.NewSweeper(quiet{partitions{count(&idle), count(&busy)}, func() ([]int, error) {
			if away.Load() {
				return nil, errAway
			}
			return []int{1}, nil
		}}, time.Second, nil, l.logger(slog.LevelDebug))
		done := make(chan struct{})
		go func() {
			defer close(done)
			sweeper.Run(ctx)
		}()
		pass(2 * time.Minute)
		synctest.Wait()
		if idle.Load() != 2 || busy.Load() != 120 {
			t.Errorf("in two minutes the idle partition is swept %d times, want 2; the other %d times, want 120", idle.Load(),
				busy.Load())
		}
		pass(10 * time.Second)
		away.Store(true)
		pass(10 * time.Second)
		cancel()
		<-done
		want := []string{`level=WARN msg="could not sweep a partition; retrying" error="the store is away"`}
		if diff := cmp.Diff(want, l.Lines()); diff != "" {
			t.Errorf("log differs (-want +got):\n%s", diff)
		}
	})
}

// The server of a partition does not respond, and its driver waits for an hour. The other partitions are swept every
// round all the same.
func TestSweeperLeavesASilentPartition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := [2]atomic.Int64{}
		silent := func(context.Context) (dispatch.Repairs, error) {
			calls[0].Add(1)
			pass(time.Hour)
			return dispatch.Repairs{}, nil
		}
		others := func(context.Context) (dispatch.Repairs, error) {
			calls[1].Add(1)
			return dispatch.Repairs{}, nil
		}
		ctx, stop := context.WithCancel(t.Context())
		sweeper := dispatch.NewSweeper(partitions{silent, others}, time.Second, nil, slog.New(slog.DiscardHandler))
		var running sync.WaitGroup
		running.Go(func() { sweeper.Run(ctx) })
		pass(2 * time.Minute)
		if n := calls[0].Load(); n != 1 {
			t.Errorf("the silent partition is asked %d times, want once", n)
		}
		if n := calls[1].Load(); n < 90 {
			t.Errorf("the other one is swept %d times in two minutes", n)
		}
		stop()
		running.Wait()
	})
}
