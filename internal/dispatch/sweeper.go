package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pacer-notify/pacer/internal/beat"
)

// Repairs is what one sweep of a partition found and repaired.
type Repairs struct {
	// LeasesEnded counts deliveries whose worker did not settle them in time, Expired notifications that expired while
	// they waited, Woken users whose wake-up was lost.
	LeasesEnded, Expired, Woken int
	// Accepted is what processes without metrics of their own accepted. Who is told counts it: nobody else is.
	Accepted []Accepted
	// ClockSetBack is by how much at least the store's clock was set back since the last sweep, if it was by more than
	// ten seconds. Users are woken then, a share in each sweep.
	ClockSetBack time.Duration
	// More is true when a further sweep of the partition would find more at once.
	More bool
}

// Accepted is how many notifications of a category were accepted.
type Accepted struct {
	Category string
	Count    int64
}

// Partitions is what a Sweeper repairs.
type Partitions interface {
	Partitions() int
	// Due lists those in which a sweep would find something.
	Due(ctx context.Context) ([]int, error)
	Sweep(ctx context.Context, partition int) (Repairs, error)
}

// Sweeper repairs every partition, over and over: what a killed worker held, what expired, and wake-ups that were
// lost. Any number of processes may run one; each repair is one atomic step.
type Sweeper struct {
	partitions Partitions
	interval   time.Duration
	repaired   func(Repairs)
	log        *slog.Logger

	sweeping []atomic.Bool // by partition: whether a sweep of it is under way
	running  sync.WaitGroup
}

// sweepPatience is how long a round waits for a partition. On Redis Cluster its server may stand still, and the driver
// may wait for minutes.
const sweepPatience = 5 * time.Second

// wholeEvery is how many rounds there are from one in which every partition is swept to the next such one. In the
// others only those are in which something is due. A sweep also forgets what nobody needs any more.
const wholeEvery = 60

// NewSweeper makes a Sweeper that looks at every partition once per interval and reports repairs to repaired, which
// may be nil.
func NewSweeper(partitions Partitions, interval time.Duration, repaired func(Repairs), log *slog.Logger) *Sweeper {
	if repaired == nil {
		repaired = func(Repairs) {}
	}
	return &Sweeper{
		partitions: partitions, interval: interval, repaired: repaired, log: log,
		sweeping: make([]atomic.Bool, partitions.Partitions()),
	}
}

// Run sweeps until ctx ends.
func (s *Sweeper) Run(ctx context.Context) {
	defer s.running.Wait()
	ticker := beat.NewTicker(s.interval)
	defer ticker.Stop()
	away := false
	for round := 0; ; round++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			ticker.Next()
		}
		err := s.round(ctx, round%wholeEvery == 0)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, ErrLost) && !away:
			s.log.WarnContext(ctx, "a partition has lost its state; the sweeper skips it until it is rebuilt", "error", err)
		case err != nil && !away:
			s.log.WarnContext(ctx, "could not sweep a partition; retrying", "error", err)
		case err == nil && away:
			s.log.InfoContext(ctx, "the sweeper reaches all partitions again")
		}
		away = err != nil
	}
}

// round sweeps the partitions in which something is due, or every one.
func (s *Sweeper) round(ctx context.Context, whole bool) error {
	if whole {
		return s.Sweep(ctx)
	}
	due, err := s.partitions.Due(ctx)
	if err != nil {
		return err
	}
	return s.sweepEach(ctx, due)
}

// Sweep looks at every partition once. One that can't be repaired does not keep it from the others, which may lie on
// other shards; the error is the first one.
func (s *Sweeper) Sweep(ctx context.Context) error {
	all := make([]int, s.partitions.Partitions())
	for partition := range all {
		all[partition] = partition
	}
	return s.sweepEach(ctx, all)
}

// sweepEach sweeps partitions one after another.
func (s *Sweeper) sweepEach(ctx context.Context, partitions []int) error {
	var first error
	for _, partition := range partitions {
		err := s.sweepWithin(ctx, partition)
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return first
}

// sweepWithin sweeps a partition. A sweep that takes longer than sweepPatience goes on, and until it ends its partition
// is left alone.
func (s *Sweeper) sweepWithin(ctx context.Context, partition int) error {
	if !s.sweeping[partition].CompareAndSwap(false, true) {
		return fmt.Errorf("sweep partition %d: its server has not responded yet", partition)
	}
	swept := make(chan error, 1)
	s.running.Go(func() {
		defer s.sweeping[partition].Store(false)
		swept <- s.sweep(ctx, partition)
	})
	patience := time.NewTimer(sweepPatience)
	defer patience.Stop()
	select {
	case err := <-swept:
		return err
	case <-patience.C:
		return fmt.Errorf("sweep partition %d: its server has not responded within %s", partition, sweepPatience)
	}
}

// sweepsAtMost is how many sweeps of a partition follow each other: what is left then waits for the next round.
const sweepsAtMost = 100

func (s *Sweeper) sweep(ctx context.Context, partition int) error {
	for range sweepsAtMost {
		more, err := s.sweepOnce(ctx, partition)
		if err != nil || !more || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

func (s *Sweeper) sweepOnce(ctx context.Context, partition int) (more bool, err error) {
	repairs, err := s.partitions.Sweep(ctx, partition)
	if err != nil {
		return false, err
	}
	if repairs.ClockSetBack > 0 {
		s.log.WarnContext(ctx, "the clock of Redis was set back; waking all users with waiting notifications",
			"partition", partition, "by", repairs.ClockSetBack.String())
	}
	if repairs.LeasesEnded+repairs.Expired+repairs.Woken+len(repairs.Accepted) > 0 {
		s.repaired(repairs)
	}
	return repairs.More, nil
}
