package ops

import (
	"math"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/stats"
)

const (
	// trendWindow is the time over which lateness and pulls per delivery are computed.
	trendWindow = time.Minute
	// listedAfter is how long after it began a process is listed at the latest.
	listedAfter = 5 * time.Second
	// missedFor is how long the counts of a process that is not listed are kept, in case it comes back.
	missedFor = time.Hour
)

// trend computes what needs more than one snapshot.
type trend struct {
	before *Snapshot
	// listed is when each process was listed last, seen what it had counted then. Steps are what each snapshot of the
	// window added.
	listed map[string]time.Time
	seen   map[string][]uint64
	steps  []step
	ends   endsTrend
	still  stillness
	crowd  crowding
}

// step is what was counted between two snapshots.
type step struct {
	at               time.Time
	pulls, delivered int64
	lateness         []uint64
}

// follow fills in a snapshot's rates, lateness and pulls per delivery.
func (t *trend) follow(s *Snapshot) {
	now := step{at: s.At, lateness: make([]uint64, len(latenessBuckets)+1)}
	if t.listed == nil {
		t.listed, t.seen, t.ends.before = map[string]time.Time{}, map[string][]uint64{}, map[string]map[endKey]int64{}
	}
	began := map[string]bool{}
	for _, p := range s.Processes {
		before, known := t.seen[p.ID]
		if began[p.ID] = !known && t.beganSince(p); began[p.ID] {
			before = make([]uint64, len(p.lateness))
		}
		t.listed[p.ID], t.seen[p.ID] = s.At, p.lateness
		for i := range min(len(p.lateness), len(now.lateness), len(before)) {
			if p.lateness[i] >= before[i] {
				now.lateness[i] += p.lateness[i] - before[i]
			}
		}
	}
	alike := t.before != nil && sameCounted(t.before, s)
	if alike {
		seconds := s.At.Sub(t.before.At).Seconds()
		rate := func(now, before int64) float64 { return math.Max(0, float64(now-before)/math.Max(seconds, 1e-3)) }
		a, b := s.Totals, t.before.Totals
		s.Rates = Rates{
			Accepted: rate(a.Accepted, b.Accepted), Delivered: rate(a.Delivered, b.Delivered),
			Deferrals: rate(a.Deferrals, b.Deferrals), Failed: rate(a.Failed, b.Failed),
		}
		// A rebuild counts anew, and may have kept less. Then nothing was added.
		now.pulls, now.delivered = max(0, a.Pulls-b.Pulls), max(0, a.Delivered-b.Delivered)
	}
	t.ends.follow(s, began, alike)
	t.forget(s.At)
	t.before = s
	t.steps = append(t.steps, now)
	for s.At.Sub(t.steps[0].at) > trendWindow {
		t.steps = t.steps[1:]
	}
	t.sum(s)
	s.Problems = slices.Concat(problems(s), t.still.follow(s), t.crowd.follow(s))
}

// sameCounted reports whether the counts of two snapshots are of the same partitions, and of the same store. Otherwise
// what one lacks, or has again, is nothing that happened between them.
func sameCounted(before, s *Snapshot) bool {
	return before.Partial == s.Partial && slices.EqualFunc(before.Partitions, s.Partitions,
		func(a, b stats.Partition) bool { return a.Unreachable == b.Unreachable })
}

// forget forgets the processes that have not been listed for long.
func (t *trend) forget(now time.Time) {
	for id, at := range t.listed {
		if now.Sub(at) > missedFor {
			delete(t.listed, id)
			delete(t.seen, id)
			delete(t.ends.before, id)
		}
	}
}

// beganSince reports whether a process that was never listed has begun since the look before, so that all it has
// counted is new. Others did not reach Redis until now: nobody knows when they counted what.
func (t *trend) beganSince(p Process) bool {
	return t.before != nil && p.Since.After(t.before.At.Add(-listedAfter))
}

// sum fills in what is computed over the whole window.
func (t *trend) sum(s *Snapshot) {
	var pulls, delivered int64
	lateness := make([]uint64, len(latenessBuckets)+1)
	for _, step := range t.steps {
		pulls += step.pulls
		delivered += step.delivered
		for i, n := range step.lateness {
			lateness[i] += n
		}
	}
	if delivered > 0 {
		s.PullsPerDelivery = float64(pulls) / float64(delivered)
	}
	s.Lateness = Lateness{P50: quantile(lateness, 0.5), P99: quantile(lateness, 0.99)}
}

// quantile estimates a quantile from counts by latency bucket, as Prometheus does: it takes the values of a bucket to
// be spread evenly, and returns at most the largest bound.
func quantile(counts []uint64, q float64) float64 {
	var total uint64
	for _, n := range counts {
		total += n
	}
	rank := q * float64(total)
	below := 0.0
	for i, n := range counts {
		if n == 0 || below+float64(n) < rank {
			below += float64(n)
			continue
		}
		if i == len(latenessBuckets) {
			break
		}
		low := 0.0
		if i > 0 {
			low = latenessBuckets[i-1]
		}
		return low + (latenessBuckets[i]-low)*(rank-below)/float64(n)
	}
	if total == 0 {
		return 0
	}
	return latenessBuckets[len(latenessBuckets)-1]
}
