package ops

import (
	"math"
	"slices"
	"time"
)

// trendWindow is the time over which lateness and pulls per delivery are computed.
const trendWindow = time.Minute

// trend computes what needs more than one snapshot.
type trend struct {
	before *Snapshot
	// seen has the counts of each process at the snapshot before, steps what each snapshot of the window added.
	seen  map[string][]uint64
	steps []step
	ends  endsTrend
	still stillness
	crowd crowding
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
	seen := map[string][]uint64{}
	for _, p := range s.Processes {
		seen[p.ID] = p.lateness
		before, known := t.seen[p.ID]
		for i := range min(len(p.lateness), len(now.lateness)) {
			if known && i < len(before) && p.lateness[i] >= before[i] {
				now.lateness[i] += p.lateness[i] - before[i]
			}
		}
	}
	t.seen = seen
	if t.before != nil {
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
	t.before = s
	t.steps = append(t.steps, now)
	for s.At.Sub(t.steps[0].at) > trendWindow {
		t.steps = t.steps[1:]
	}
	t.sum(s)
	t.ends.follow(s)
	s.Problems = slices.Concat(problems(s), t.still.follow(s), t.crowd.follow(s))
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
