package ops

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/plural"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/internal/timespan"
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

// Problem is a sentence about what does not work, and the way to what one can do about it.
type Problem struct {
	Text string `json:"text"`
	// Remedy is what the console offers; the zero value where it offers nothing.
	Remedy Remedy `json:"remedy,omitzero"`
}

// Remedy names what one can do, and its place in the console; or the paused subject that it resumes.
type Remedy struct {
	Label   string           `json:"label"`
	Address string           `json:"address,omitempty"`
	Resume  *control.Subject `json:"resume,omitempty"`
}

// Where the console shows what a sentence is about.
var (
	toWork       = Remedy{Label: "See the figures", Address: "./?page=system#work-title"}
	toProcesses  = Remedy{Label: "See the processes", Address: "./?page=system#processes-title"}
	toStores     = Remedy{Label: "See the stores", Address: "./?page=system#stores-title"}
	toPartitions = Remedy{Label: "See the partitions", Address: "./?page=system#partitions-title"}
	toHosts      = Remedy{Label: "See or pause the hosts", Address: "./?page=channels#channels-title"}
	toPolicy     = Remedy{Label: "See the policy", Address: "policy.html"}
)

// adder adds a sentence, and where to go.
type adder func(to Remedy, format string, args ...any)

// problems says what a snapshot shows that does not work, with its cause, most urgent first.
func problems(s *Snapshot) []Problem {
	var all []Problem
	add := func(to Remedy, format string, args ...any) {
		all = append(all, Problem{fmt.Sprintf(format, args...), to})
	}
	if s.Invariants.Violations > 0 {
		add(toWork, "Limits were exceeded: the invariant checker found %s beyond a limit.",
			plural.Of(s.Invariants.Violations, "delivery", "deliveries"))
	}
	storeProblems(s, add)
	processProblems(s, add)
	policyProblems(s, add)
	secretProblems(s, add)
	for _, c := range s.Channels {
		var hosts []string
		for _, h := range c.Hosts {
			if trouble := h.Trouble(s.At); trouble != "" {
				hosts = append(hosts, trouble)
			}
		}
		if len(hosts) > 0 {
			add(toHosts, "%s: %s.", c.Channel, listed(hosts))
		}
	}
	endpointProblems(s, add)
	receiverProblems(s, add)
	crowdProblems(s, add)
	for _, p := range s.Pauses {
		why := ""
		if p.Why != "" {
			why = ": " + p.Why
		}
		add(Remedy{Label: "Resume " + p.String() + " …", Resume: &p.Subject}, "Paused: %s %s, by %s %s ago%s.", p.Kind, p.Name, p.By, timespan.Seconds(s.At.Sub(p.At)), why)
	}
	return all
}

// storeProblems are those of Redis and Postgres.
func storeProblems(s *Snapshot, add adder) {
	if p := s.Redis.EvictionRule; p != "" && p != "noeviction" {
		add(toStores, "Redis evicts keys when it is full (%s), which loses notifications: set maxmemory-policy noeviction.", p)
	}
	if s.Redis.Full {
		what := "nothing more is accepted"
		if s.Postgres != nil {
			what = "what is accepted waits in Postgres"
		}
		add(toStores, "Redis is full, with %.0f %% of its maxmemory used: %s until it has room again.", 100*s.Redis.Used, what)
	}
	var away []string
	for _, p := range s.Partitions {
		if p.Unreachable {
			away = append(away, fmt.Sprint(p.Partition))
		}
	}
	if len(away) > 0 {
		add(toPartitions, "The Redis server of partition %s does not respond: its notifications wait until it does.", listed(away))
	}
	pg := s.Postgres
	switch {
	case pg == nil:
	case pg.Error != "":
		add(toStores, "Postgres does not respond (%s): nothing is accepted or delivered.", pg.Error)
	case pg.Took >= slowPostgres.Seconds() && pg.InUse >= pg.Max:
		add(toStores, "Postgres is slow: a connection and a reply took %.1f s; all connections (%d) are in use.", pg.Took, pg.Max)
	case pg.Took >= slowPostgres.Seconds():
		add(toStores, "Postgres is slow: a reply took %.1f s.", pg.Took)
	}
	if pg != nil && pg.Lock != nil {
		add(toStores, "Locked: session %d on Postgres (user %s%s) holds a lock, and %s waited for it for up to %s.",
			pg.Lock.PID, pg.Lock.User, named(pg.Lock.Application),
			plural.Of(pg.Lock.Statements, "statement of pacer has", "statements of pacer have"),
			timespan.Seconds(time.Duration(pg.Lock.Waited*float64(time.Second))))
	}
	if pg != nil && apart(pg.ClockAhead) && redisClock(s) == 0 {
		add(toStores, "Postgres's clock is %s Redis's: acceptance, expiry and lateness use both clocks, so correct the one that is wrong.", ahead(pg.ClockAhead))
	}
}

// crowdProblems are users of whom very many are deferred in a category without an overflow ladder.
func crowdProblems(s *Snapshot, add adder) {
	var users []string
	var remedy Remedy
	for _, c := range s.Crowds {
		if !c.Unbounded {
			continue
		}
		if len(users) == 0 {
			remedy = Remedy{Label: "See user " + c.UserID, Address: "./?q=" + url.QueryEscape(c.UserID)}
		}
		users = append(users, fmt.Sprintf("%s in %s (%d)", c.UserID, c.Category, c.Deferred))
	}
	if len(users) > 0 {
		add(remedy, "Very many wait for one user: %s. Somebody produces faster than the user may receive; an overflow ladder of the category (overflow: in the policy) bounds it.", listed(users))
	}
}

// processProblems are those of processes: none that works, some that died, and clocks that differ.
func processProblems(s *Snapshot, add adder) {
	workers := workersOf(s.Processes)
	if workerless(s) {
		add(toProcesses, "No worker is alive: nothing is delivered.")
	}
	if inFlight, concurrency := load(workers); concurrency > 0 && inFlight >= concurrency {
		add(toProcesses, "All workers are busy, with %s under way, the most they may have; %s for one of them to end.",
			plural.Of(inFlight, "delivery", "deliveries"),
			plural.Of(s.Queued, "notification waits", "notifications wait"))
	}
	var gone []string
	for _, g := range s.Gone {
		gone = append(gone, fmt.Sprintf("%s (missed %s ago)", g.ID, timespan.Seconds(s.At.Sub(g.At))))
	}
	if len(gone) > 0 {
		add(toProcesses, "Gone without stopping: %s. It died, hangs, or can't reach Redis.", listed(gone))
	}
	if wrong := redisClock(s); wrong != 0 {
		add(toProcesses, "Redis's clock is %s those of all processes and of Postgres: correct it.", ahead(wrong))
		return
	}
	for _, p := range s.Processes {
		if apart(p.ClockAhead) {
			add(toProcesses, "The clock of %s is %s Redis's: correct it.", p.ID, ahead(p.ClockAhead))
		}
	}
}

// workersOf are the processes with the worker role.
func workersOf(processes []Process) (workers []Process) {
	for _, p := range processes {
		if slices.Contains(p.Roles, string(settings.RoleWorker)) {
			workers = append(workers, p)
		}
	}
	return workers
}

// workerless reports whether processes are alive, and no worker among them.
func workerless(s *Snapshot) bool { return len(s.Processes) > 0 && len(workersOf(s.Processes)) == 0 }

// load sums up how many deliveries are under way, and how many there may be.
func load(workers []Process) (inFlight, concurrency int) {
	for _, p := range workers {
		inFlight, concurrency = inFlight+p.InFlight, concurrency+p.Concurrency
	}
	return inFlight, concurrency
}

// redisClock is by how many seconds Redis's clock is ahead of all others, where Postgres and every process agree that
// it is wrong; else 0.
func redisClock(s *Snapshot) float64 {
	if s.Postgres == nil || !apart(s.Postgres.ClockAhead) || len(s.Processes) == 0 {
		return 0
	}
	for _, p := range s.Processes {
		if apart(p.ClockAhead - s.Postgres.ClockAhead) {
			return 0
		}
	}
	return -s.Postgres.ClockAhead
}

// policyProblems are files that were refused, and processes whose policies differ.
func policyProblems(s *Snapshot, add adder) {
	for _, p := range s.Processes {
		if p.Policy == nil || p.Policy.Refused == "" {
			continue
		}
		fault, _, _ := strings.Cut(p.Policy.Refused, "\n")
		add(toPolicy, "%s refused its policy file %s ago and keeps version %s: %s.", p.ID, timespan.Seconds(s.At.Sub(p.Policy.RefusedAt)),
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
		add(toPolicy, "Processes have different policies in force: %s.", strings.Join(all, "; "))
	}
}

// stillness finds partitions that stand still, from one snapshot to the next.
type stillness struct {
	since map[int]time.Time
	seen  map[int]stats.Partition
}

// follow says which partitions hold notifications that may go, and have not moved for long. In a paused category or
// partition that is as it should be.
func (t *stillness) follow(s *Snapshot) []Problem {
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
		moved := p.SweptAt != last.SweptAt && (p.Steps != last.Steps || p.Queued+p.HeldOver == 0)
		if !known || moved || !waits || p.Unreachable {
			delete(t.since, p.Partition)
			continue
		}
		if _, standing := t.since[p.Partition]; !standing {
			t.since[p.Partition] = s.At
		}
		if stood := s.At.Sub(t.since[p.Partition]); stood >= stuckAfter {
			name := fmt.Sprintf("%d (for %s)", p.Partition, timespan.Seconds(stood))
			if p.SweptAt == last.SweptAt {
				unswept = append(unswept, name)
			} else {
				unpulled = append(unpulled, name)
			}
		}
	}
	var all []Problem
	if len(unswept) > 0 && !workerless(s) { // else another sentence says so
		all = append(all, Problem{"Stuck: no worker attends to partition " + listed(unswept) + ".", toPartitions})
	}
	held := slices.ContainsFunc(s.Pauses, func(p control.Pause) bool { return p.Kind != control.Channel })
	if len(unpulled) > 0 && !held {
		all = append(all, Problem{"Stuck: no worker takes the due notifications of partition " + listed(unpulled) + ".", toPartitions})
	}
	return all
}

// crowding finds that notifications wait for their providers although no host is in trouble.
type crowding struct{ since time.Time }

// follow says that notifications have waited so for long, and why.
func (c *crowding) follow(s *Snapshot) []Problem {
	troubled := slices.ContainsFunc(s.Channels, func(c Channel) bool {
		return c.Paused != nil || slices.ContainsFunc(c.Hosts, func(h push.Host) bool { return h.Trouble(s.At) != "" })
	})
	switch {
	case s.Waiting.Provider == 0 || troubled:
		c.since = time.Time{}
	case c.since.IsZero():
		c.since = s.At
	case s.At.Sub(c.since) >= stuckAfter:
		return []Problem{{fmt.Sprintf("Waiting for a provider: %s. The limit of a channel or target is used up "+
			"(--CHANNEL-limits), or a host has as many calls under way as it may have.",
			plural.Of(s.Waiting.Provider, "notification", "notifications")), toHosts}}
	}
	return nil
}

// listed joins a few names, and says how many more there are.
func listed(names []string) string {
	if len(names) > namedAtMost {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namedAtMost], ", "), len(names)-namedAtMost)
	}
	return strings.Join(names, ", ")
}

// named is a further name in a bracket; "" for none.
func named(application string) string {
	if application == "" {
		return ""
	}
	return ", application " + application
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
