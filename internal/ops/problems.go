package ops

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/stats"
)

const (
	// slowPostgres is from when on Postgres counts as slow, and clocksApart from when on two clocks differ.
	slowPostgres = time.Second
	clocksApart  = 2 * time.Second
	// stuckAfter is for how long a partition has to stand still to count as stuck.
	stuckAfter = 15 * time.Second
	// namedAtMost is how many hosts or processes a sentence names.
	namedAtMost = 3
)

// problems says what a snapshot shows that does not work, with its cause, most urgent first.
func problems(s *Snapshot) []string {
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if s.Invariants.Violations > 0 {
		add("Limits were exceeded: the invariant checker found %d deliveries beyond a limit.", s.Invariants.Violations)
	}
	storeProblems(s, add)
	processProblems(s, add)
	policyProblems(s, add)
	for _, c := range s.Channels {
		var hosts []string
		for _, h := range c.Hosts {
			if trouble := h.Trouble(s.At); trouble != "" {
				hosts = append(hosts, trouble)
			}
		}
		if len(hosts) > 0 {
			add("%s: %s.", c.Channel, listed(hosts))
		}
	}
	for _, p := range s.Pauses {
		why := ""
		if p.Why != "" {
			why = ": " + p.Why
		}
		add("Paused: %s %s, by %s %s ago%s.", p.Kind, p.Name, p.By, ago(s.At.Sub(p.At)), why)
	}
	return all
}

// storeProblems are those of Redis and Postgres.
func storeProblems(s *Snapshot, add func(string, ...any)) {
	if p := s.Redis.EvictionRule; p != "" && p != "noeviction" {
		add("Redis evicts keys when it is full (%s), which loses notifications: set maxmemory-policy noeviction.", p)
	}
	var away []string
	for _, p := range s.Partitions {
		if p.Unreachable {
			away = append(away, fmt.Sprint(p.Partition))
		}
	}
	if len(away) > 0 {
		add("The Redis server of partition %s does not respond: nothing of it goes out.", listed(away))
	}
	pg := s.Postgres
	switch {
	case pg == nil:
	case pg.Error != "":
		add("Postgres does not respond (%s): nothing is accepted or delivered.", pg.Error)
	case pg.Took >= slowPostgres.Seconds() && pg.InUse >= pg.Max:
		add("Postgres is slow: a connection and a reply took %.1f s; all %d connections are in use.", pg.Took, pg.Max)
	case pg.Took >= slowPostgres.Seconds():
		add("Postgres is slow: a reply took %.1f s.", pg.Took)
	}
	if pg != nil && apart(pg.ClockAhead) {
		add("Postgres's clock is %s Redis's: acceptance, expiry and lateness are told by both.", ahead(pg.ClockAhead))
	}
}

// processProblems are those of processes: none that works, some that died, and clocks that differ.
func processProblems(s *Snapshot, add func(string, ...any)) {
	works := slices.ContainsFunc(s.Processes, func(p Process) bool {
		return slices.Contains(p.Roles, string(settings.RoleWorker))
	})
	if !works && len(s.Processes) > 0 {
		add("No worker is alive: nothing is delivered.")
	}
	var gone []string
	for _, g := range s.Gone {
		gone = append(gone, fmt.Sprintf("%s (missed %s ago)", g.ID, ago(s.At.Sub(g.At))))
	}
	if len(gone) > 0 {
		add("Gone without having stopped: %s. It died, stands still, or does not reach Redis.", listed(gone))
	}
	for _, p := range s.Processes {
		if apart(p.ClockAhead) {
			add("The clock of %s is %s Redis's: set it right.", p.ID, ahead(p.ClockAhead))
		}
	}
}

// policyProblems are files that were refused, and processes whose policies differ.
func policyProblems(s *Snapshot, add func(string, ...any)) {
	for _, p := range s.Processes {
		if p.Policy == nil || p.Policy.Refused == "" {
			continue
		}
		fault, _, _ := strings.Cut(p.Policy.Refused, "\n")
		add("%s refused its policy file %s ago and keeps version %s: %s.", p.ID, ago(s.At.Sub(p.Policy.RefusedAt)),
			p.Policy.Version, fault)
	}
	if different := versions(s.Processes); len(different) > 1 {
		var all []string
		for _, version := range different {
			var ids []string
			for _, p := range s.Processes {
				if p.Policy != nil && p.Policy.Version == version {
					ids = append(ids, p.ID)
				}
			}
			all = append(all, fmt.Sprintf("version %s on %s", version, listed(ids)))
		}
		add("Processes have different policies in force: %s.", strings.Join(all, "; "))
	}
}

// stillness finds partitions that stand still, from one snapshot to the next.
type stillness struct {
	since map[int]time.Time
	seen  map[int]stats.Partition
}

// follow says which partitions hold notifications that may go, and have not moved for long. In a paused category or
// partition that is as it should be.
func (t *stillness) follow(s *Snapshot) []string {
	before := t.seen
	t.seen = map[int]stats.Partition{}
	if t.since == nil {
		t.since = map[int]time.Time{}
	}
	var unswept, unpulled []string
	for _, p := range s.Partitions {
		last, known := before[p.Partition]
		t.seen[p.Partition] = p
		waits := p.Queued+p.Deferred > 0
		moved := p.Steps != last.Steps && p.SweptAt != last.SweptAt || p.Queued == 0 && p.SweptAt != last.SweptAt
		if !known || moved || !waits || p.Unreachable {
			delete(t.since, p.Partition)
			continue
		}
		if _, standing := t.since[p.Partition]; !standing {
			t.since[p.Partition] = s.At
		}
		if stood := s.At.Sub(t.since[p.Partition]); stood >= stuckAfter {
			name := fmt.Sprintf("%d (for %s)", p.Partition, ago(stood))
			if p.SweptAt == last.SweptAt {
				unswept = append(unswept, name)
			} else {
				unpulled = append(unpulled, name)
			}
		}
	}
	var all []string
	if len(unswept) > 0 {
		all = append(all, "Stuck: no worker looks at partition "+listed(unswept)+".")
	}
	held := slices.ContainsFunc(s.Pauses, func(p control.Pause) bool { return p.Kind != control.Channel })
	if len(unpulled) > 0 && !held {
		all = append(all, "Stuck: something may go, and no worker takes it, in partition "+listed(unpulled)+".")
	}
	return all
}

// listed joins a few names, and says how many more there are.
func listed(names []string) string {
	if len(names) > namedAtMost {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namedAtMost], ", "), len(names)-namedAtMost)
	}
	return strings.Join(names, ", ")
}

func apart(seconds float64) bool {
	return seconds >= clocksApart.Seconds() || seconds <= -clocksApart.Seconds()
}

// ahead says how far a clock is ahead of or behind another.
func ahead(seconds float64) string {
	if seconds < 0 {
		return fmt.Sprintf("%.1f s behind", -seconds)
	}
	return fmt.Sprintf("%.1f s ahead of", seconds)
}

// ago writes how long something lasts or is ago, for people.
func ago(d time.Duration) string { return max(0, d).Round(time.Second).String() }
