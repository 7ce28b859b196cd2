package ops

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/stats"
)

const (
	// endsKept is how many reasons a process counts apart, longestReason how long one may be in bytes: providers make
	// them up. Further ones count as otherReason.
	endsKept      = 200
	longestReason = 80
	otherReason   = "another reason"
	// endsReported is how many a process reports, endsShown how many a snapshot shows.
	endsReported = 20
	endsShown    = 5
	// endsWindow is the time over which a snapshot counts them, endsStep the time that is counted together.
	endsWindow = time.Hour
	endsStep   = time.Minute
)

// endsByAgendas are the reasons of the ends that the agendas decide and count, and not a process.
var endsByAgendas = []string{
	notification.ReasonMaxDefer, "expires_at", "crash_loop", notification.ReasonQuietHours, notification.ReasonOverflow,
}

// ends counts notifications that ended undelivered, by reason. Those whose reasons the agendas count are left to them.
type ends struct {
	mu     sync.Mutex
	counts map[endKey]int64
}

type endKey struct{ status, reason string }

func (e *ends) count(status notification.Status, reason string) {
	reason, _, _ = strings.Cut(reason, "\n")
	if len(reason) > longestReason {
		reason = strings.ToValidUTF8(reason[:longestReason], "") + " …"
	}
	key := endKey{string(status), reason}
	if slices.Contains(endsByAgendas, reason) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.counts == nil {
		e.counts = map[endKey]int64{}
	}
	if _, known := e.counts[key]; !known && len(e.counts) >= endsKept {
		key.reason = otherReason
	}
	e.counts[key]++
}

// most are the n most frequent.
func (e *ends) most(n int) []stats.EndReason {
	e.mu.Lock()
	defer e.mu.Unlock()
	return mostFrequent(e.counts, n)
}

func mostFrequent(counts map[endKey]int64, n int) []stats.EndReason {
	var all []stats.EndReason
	for _, key := range slices.SortedFunc(maps.Keys(counts), func(a, b endKey) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a.status, b.status),
			cmp.Compare(a.reason, b.reason))
	}) {
		if counts[key] > 0 && len(all) < n {
			all = append(all, stats.EndReason{Status: key.status, Reason: key.reason, Count: counts[key]})
		}
	}
	return all
}

// endsTrend computes from one snapshot to the next what ended undelivered within the last hour.
type endsTrend struct {
	began  time.Time
	before map[string]map[endKey]int64 // by process, when it was listed last; those of the agendas by ""
	totals stats.Totals
	steps  []endsStepped
}

// endsStepped is what ended within a step.
type endsStepped struct {
	at              time.Time
	failed, expired int64
	reasons         map[endKey]int64
}

// follow fills in what ended. Of the processes that have begun since the snapshot before, all that they counted is new.
// alike says that the counts of the deployment can be compared with those of the snapshot before.
func (t *endsTrend) follow(s *Snapshot, began map[string]bool, alike bool) {
	if t.began.IsZero() {
		t.began = s.At
		if s.hour != nil {
			t.began = s.hour.Hour
			t.steps = []endsStepped{{at: t.began, failed: s.hour.Failed, expired: s.hour.Expired}}
		}
	}
	if len(t.steps) == 0 || s.At.Sub(t.steps[len(t.steps)-1].at) >= endsStep {
		t.steps = append(t.steps, endsStepped{at: s.At, reasons: map[endKey]int64{}})
	}
	for s.At.Sub(t.steps[0].at) > endsWindow {
		t.steps = t.steps[1:]
	}
	now := &t.steps[len(t.steps)-1]
	if alike {
		now.failed += max(0, s.Totals.Failed-t.totals.Failed)
		now.expired += max(0, s.Totals.Expired-t.totals.Expired)
	}
	if !alike {
		delete(t.before, "")
	}
	t.before[""] = t.added(now, "", s.Reasons, false)
	for _, p := range s.Processes {
		t.before[p.ID] = t.added(now, p.ID, p.ends, began[p.ID])
	}
	t.totals = s.Totals
	s.Ended = t.sum()
}

// added adds to a step what a source has counted since the snapshot before, and returns its counts. Of one that was not
// there before, nothing is known to be new, unless it has begun since.
func (t *endsTrend) added(to *endsStepped, source string, ends []stats.EndReason, began bool) map[endKey]int64 {
	before, known := t.before[source]
	counts := map[endKey]int64{}
	for _, e := range ends {
		key := endKey{e.Status, e.Reason}
		counts[key] = e.Count
		if known || began {
			had, reported := before[key]
			if !reported {
				had = mostUnreported(before)
			}
			to.reasons[key] += max(0, e.Count-had)
		}
	}
	return counts
}

// mostUnreported is how often a reason may have been counted, at most, that is not among those that were reported.
func mostUnreported(reported map[endKey]int64) int64 {
	if len(reported) < endsReported {
		return 0
	}
	return slices.Min(slices.Collect(maps.Values(reported)))
}

func (t *endsTrend) sum() Ended {
	all := Ended{Since: t.steps[0].at}
	if t.began.After(all.Since) {
		all.Since = t.began
	}
	reasons := map[endKey]int64{}
	for _, step := range t.steps {
		all.Failed += step.failed
		all.Expired += step.expired
		for key, n := range step.reasons {
			reasons[key] += n
		}
	}
	all.Reasons = mostFrequent(reasons, endsShown)
	return all
}
