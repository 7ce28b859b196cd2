package ops_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/presence"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/test/transcript"
)

// looks returns the last of some snapshots, as somebody who looked at all of them sees it.
func looks(t *testing.T, snapshots ...ops.Snapshot) *ops.Snapshot {
	t.Helper()
	next := 0
	live := ops.NewLive(func(context.Context) (*ops.Snapshot, error) {
		s := snapshots[next]
		next++
		return &s, nil
	}, slog.New(slog.DiscardHandler))
	var last *ops.Snapshot
	for range snapshots {
		var err error
		if last, err = live.Latest(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return last
}

// What does not work is said in a sentence that names it, its state and its cause.
func TestProblemsNameTheirCauses(t *testing.T) {
	t.Parallel()
	worker := func(id string, policy ops.Policy) ops.Process {
		return ops.NewProcess(stats.Process{ID: id, Roles: []string{"worker", "ops"}}, ops.Report{Policy: &policy})
	}
	good := ops.Policy{Version: "aaaa", File: "policy.yaml", LoadedAt: at.Add(-time.Hour)}
	refused := good
	refused.Refused, refused.RefusedAt = "policy.yaml:3:5: categories.chat.limits: must be a list\npolicy.yaml:9:1: more", at.Add(-time.Minute)
	skewed := worker("host-b", good)
	skewed.ClockAhead = -7.25
	channel := func(h push.Host) []ops.Channel {
		return []ops.Channel{{Channel: "webhook", Hosts: []push.Host{h}}}
	}
	cases := map[string]ops.Snapshot{
		"nothing": {},
		"receivers of events": {Processes: []ops.Process{ops.NewProcess(
			stats.Process{ID: "a", Roles: []string{"worker"}}, ops.Report{Concurrency: 8, Receivers: []events.Receiver{
				{Host: "crm.example", Disabled: true, Since: at.Add(-25 * time.Hour), Fault: "it responded with 500"},
				{Host: "new.example", Since: at.Add(-time.Minute), Fault: "timeout"},
			}})}},
		"a crowd": {Crowds: []stats.Crowd{
			{UserID: "ada", Category: "chat", Deferred: 12_345, Unbounded: true},
			{UserID: "ben", Category: "news", Deferred: 12_345},
		}},
		"webhook endpoints": {Endpoints: []ops.Endpoint{
			{ID: "acme", Host: "hooks.example.com", State: "disabled", Words: "is disabled since then: 410"},
			{ID: "ep_2", Host: "example.org", State: "failing", Words: "fails since then: 503"},
		}},
		"a host away": {Channels: channel(push.Host{
			Host: "shop.example.com", Breaker: push.BreakerOpen, OpenSince: at.Add(-23 * time.Second),
			Outcome: "transient: 503",
		})},
		"a name that is not found": {Channels: channel(push.Host{
			Host: "gone.example.com", Breaker: push.BreakerHalfOpen, OpenSince: at.Add(-time.Minute),
			Outcome: "transient: dns",
		})},
		"refused credentials": {Channels: channel(push.Host{
			Breaker: push.BreakerClosed, PausedUntil: at.Add(42 * time.Second), Outcome: "credentials_refused: 401",
		})},
		"a pause": {Pauses: []control.Pause{{
			Subject: control.Subject{Kind: control.Category, Name: "chat"}, By: "ann", Why: "flood",
			At: at.Add(-time.Hour),
		}}},
		"a policy refused": {Processes: []ops.Process{worker("host-a", refused)}},
		"policies that differ": {Processes: []ops.Process{
			worker("host-a", good), worker("host-b", ops.Policy{Version: "bbbb"}),
		}},
		"a worker dead": {
			Processes: []ops.Process{worker("host-a", good)},
			Gone:      []presence.Gone{{ID: "host-b", At: at.Add(-10 * time.Second)}},
		},
		"no worker": {Processes: []ops.Process{
			ops.NewProcess(stats.Process{ID: "x", Roles: []string{"api"}}, ops.Report{}),
		}},
		"workers that are busy": {
			Counts: stats.Counts{Queued: 9},
			Processes: []ops.Process{
				ops.NewProcess(stats.Process{ID: "a", Roles: []string{"worker"}, InFlight: 4}, ops.Report{Concurrency: 4}),
				ops.NewProcess(stats.Process{ID: "b", Roles: []string{"worker"}, InFlight: 8}, ops.Report{Concurrency: 8}),
			},
		},
		"Redis full":                 {Redis: ops.Redis{Used: .934, Full: true}},
		"Redis full beside Postgres": {Redis: ops.Redis{Used: 1, Full: true}, Postgres: &ops.Postgres{}},
		"a lock": {Postgres: &ops.Postgres{
			Lock: &ops.Lock{Statements: 3, Waited: 14.2, PID: 77, User: "ann", Application: "psql"},
		}},
		"Redis's clock": {
			Processes: []ops.Process{skewed},
			Postgres:  &ops.Postgres{ClockAhead: -7.1},
		},
		"a clock":       {Processes: []ops.Process{skewed}},
		"Postgres slow": {Postgres: &ops.Postgres{Took: 1.3, InUse: 20, Max: 20}},
		"Postgres away": {Postgres: &ops.Postgres{Took: 1.5, Error: "no reply within 1.5s"}},
		"a Redis server away": {Counts: stats.Counts{Partitions: []stats.Partition{
			{Partition: 0}, {Partition: 3, Unreachable: true},
		}}},
	}
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		s := cases[name]
		s.At = at
		fmt.Fprintln(&all, name)
		for _, p := range looks(t, s).Problems {
			fmt.Fprintf(&all, "\t%s\n\t\t[%s] %s\n", p.Text, p.Remedy.Label, p.Remedy.Address)
		}
	}
	transcript.Equal(t, "testdata/problems.txt", all.String())
}

// A partition is stuck when something in it may go and nobody has moved it for long.
func TestAStuckPartitionIsNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		seconds []int
		looks   []stats.Partition
		stuck   bool
	}{
		"it moves": {seconds: []int{0, 20, 40}, looks: []stats.Partition{
			{Queued: 5, Steps: 1, SweptAt: 1}, {Queued: 5, Steps: 2, SweptAt: 2}, {Queued: 5, Steps: 3, SweptAt: 3},
		}},
		"nothing may go": {seconds: []int{0, 20, 40}, looks: []stats.Partition{
			{Deferred: 5, Steps: 1, SweptAt: 1},
			{Deferred: 5, Steps: 1, SweptAt: 2},
			{Deferred: 5, Steps: 1, SweptAt: 3},
		}},
		"a night that ends for nobody": {stuck: true, seconds: []int{0, 2, 18}, looks: []stats.Partition{
			{Deferred: 5, SweptAt: 1, HeldOver: 1},
			{Deferred: 5, SweptAt: 2, HeldOver: 1},
			{Deferred: 5, SweptAt: 3, HeldOver: 1},
		}},
		"nobody sweeps": {stuck: true, seconds: []int{0, 2, 18}, looks: []stats.Partition{
			{Deferred: 5, SweptAt: 1}, {Deferred: 5, SweptAt: 1}, {Deferred: 5, SweptAt: 1},
		}},
		"nobody pulls": {stuck: true, seconds: []int{0, 2, 18}, looks: []stats.Partition{
			{Queued: 5, Steps: 9, SweptAt: 1}, {Queued: 5, Steps: 9, SweptAt: 2}, {Queued: 5, Steps: 9, SweptAt: 3},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var all []ops.Snapshot
			for i, p := range c.looks {
				p.Partition = 3
				all = append(all, ops.Snapshot{
					At:     at.Add(time.Duration(c.seconds[i]) * time.Second),
					Counts: stats.Counts{Partitions: []stats.Partition{p}},
				})
			}
			if got := looks(t, all...).Problems; len(got) > 0 != c.stuck {
				t.Errorf("problems: %q, want one: %t", got, c.stuck)
			}
		})
	}
}

// A budget that is used up is named once notifications have waited for it for long.
func TestALimitOfAChannelThatIsUsedUpIsNamed(t *testing.T) {
	t.Parallel()
	look := func(second int, waiting int64, h push.Host) ops.Snapshot {
		return ops.Snapshot{
			At:       at.Add(time.Duration(second) * time.Second),
			Counts:   stats.Counts{Waiting: stats.Waiting{Provider: waiting}},
			Channels: []ops.Channel{{Channel: "fcm", Hosts: []push.Host{h}}},
		}
	}
	well, away := push.Host{}, push.Host{Host: "x", Breaker: push.BreakerOpen, OpenSince: at}
	for name, c := range map[string]struct {
		looks []ops.Snapshot
		used  bool
	}{
		"long":  {looks: []ops.Snapshot{look(0, 5, well), look(8, 6, well), look(16, 7, well)}, used: true},
		"short": {looks: []ops.Snapshot{look(0, 5, well), look(8, 6, well)}},
		"again": {looks: []ops.Snapshot{look(0, 5, well), look(8, 0, well), look(16, 7, well)}},
		"a host is away": {
			looks: []ops.Snapshot{look(0, 5, away), look(16, 7, away)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := fmt.Sprint(looks(t, c.looks...).Problems)
			if strings.Contains(got, "-limits") != c.used || (got == "[]") == (c.used || name == "a host is away") {
				t.Errorf("problems: %q, want the limit named: %t", got, c.used)
			}
		})
	}
}

// A process that begins knows what ended in the hour before, so that a restart hides nothing.
func TestEndsBeforeAProcessBeganAreTold(t *testing.T) {
	t.Parallel()
	hour := stats.Hour{Hour: at.Truncate(time.Hour), Failed: 2, Expired: 1}
	look := func(failed int64) ops.Snapshot {
		return ops.Snapshot{At: at, Counts: stats.Counts{Totals: stats.Totals{Failed: failed}}}
	}
	got := looks(t, ops.WithHour(look(7), hour), look(8)).Ended
	if !got.Since.Equal(hour.Hour) || got.Failed != 3 || got.Expired != 1 {
		t.Errorf("since %s %d failed and %d expired, want 3 and 1 since %s", got.Since, got.Failed, got.Expired, hour.Hour)
	}
}

// The first that a process ends are counted, too, though it had ended them when it was first listed. Those of one that
// began long before are not: it may have ended them at any time.
func TestEndsOfANewProcessAreTold(t *testing.T) {
	t.Parallel()
	look := func(second int, failed int64, listed ...ops.Process) ops.Snapshot {
		return ops.Snapshot{
			At:     at.Add(time.Duration(second) * time.Second),
			Counts: stats.Counts{Totals: stats.Totals{Failed: failed}}, Processes: listed,
		}
	}
	process := func(since time.Time, reason string) ops.Process {
		return ops.NewProcess(stats.Process{ID: reason, Since: since}, ops.Report{
			Ends:     []stats.EndReason{{Status: "failed", Reason: reason, Count: 1}},
			Lateness: []uint64{1},
		})
	}
	began, away := process(at.Add(-time.Second), "target_gone: 410"), process(at.Add(-time.Hour), "permanent: 400")
	got := looks(t, look(0, 0), look(5, 1, began, away), look(10, 1, began, away))
	want := ops.Ended{Since: at, Failed: 1, Reasons: []stats.EndReason{
		{Status: "failed", Reason: "target_gone: 410", Count: 1},
	}}
	if diff := cmp.Diff(want, got.Ended); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got.Lateness.P99 == 0 {
		t.Error("the lateness of the process that began is not counted")
	}
	got = looks(t, look(0, 0), look(5, 1, began), look(10, 1), look(15, 1, began))
	if diff := cmp.Diff(want, got.Ended); diff != "" {
		t.Errorf("a process that was not listed for a moment counts again (-want +got):\n%s", diff)
	}
}

// A process reports its most frequent reasons only. One that comes among them has counted most of its ends long ago.
func TestAReasonThatBecomesFrequentIsNotAllNew(t *testing.T) {
	t.Parallel()
	look := func(minute int, rare, other int64) ops.Snapshot {
		var ends []stats.EndReason
		for i := range 19 {
			reason := "permanent: " + strconv.Itoa(400+i)
			ends = append(ends, stats.EndReason{Status: "failed", Reason: reason, Count: 1000})
		}
		// The last of the report is the more frequent of the two.
		last := stats.EndReason{Status: "failed", Reason: "rare", Count: rare}
		if other > rare {
			last = stats.EndReason{Status: "failed", Reason: "other", Count: other}
		}
		return ops.Snapshot{
			At:        at.Add(time.Duration(minute) * time.Minute),
			Processes: []ops.Process{ops.NewProcess(stats.Process{ID: "p"}, ops.Report{Ends: append(ends, last)})},
		}
	}
	got := looks(t, look(0, 499, 500), look(1, 502, 500), look(2, 502, 503)).Ended.Reasons
	want := []stats.EndReason{
		{Status: "failed", Reason: "rare", Count: 2}, {Status: "failed", Reason: "other", Count: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// While a partition can't be asked, its counts are missing everywhere. That they are back is nothing that happened.
func TestAPartitionThatComesBackMakesNoRatesAndNoEnds(t *testing.T) {
	t.Parallel()
	look := func(second int, all int64, away bool) ops.Snapshot {
		return ops.Snapshot{At: at.Add(time.Duration(second) * time.Second), Counts: stats.Counts{
			Totals:  stats.Totals{Accepted: all, Delivered: all, Pulls: all, Deferrals: all, Failed: all, Expired: all},
			Reasons: []stats.EndReason{{Status: "expired", Reason: "max_defer", Count: all}}, Partial: away,
			Partitions: []stats.Partition{{Partition: 0}, {Partition: 1, Unreachable: away}},
		}}
	}
	got := looks(t, look(0, 9000, false), look(1, 10, true), look(2, 9000, false))
	if got.Rates != (ops.Rates{}) || got.PullsPerDelivery != 0 || got.Ended.Failed != 0 || got.Ended.Expired != 0 ||
		len(got.Ended.Reasons) != 0 {
		t.Errorf("it is back: %+v, %v pulls per delivery, ended %+v", got.Rates, got.PullsPerDelivery, got.Ended)
	}
	got = looks(t, look(0, 9000, false), look(1, 10, true), look(2, 12, true))
	want := ops.Rates{Accepted: 2, Delivered: 2, Deferrals: 2, Failed: 2}
	if got.Rates != want || got.Ended.Failed != 2 || len(got.Ended.Reasons) != 1 {
		t.Errorf("of the others, while it is away: %+v, ended %+v", got.Rates, got.Ended)
	}
}

// What ended undelivered is counted with its reasons from the first look on: what the agendas decided, and what
// processes did.
func TestWhatEndedIsToldWithItsReasons(t *testing.T) {
	t.Parallel()
	look := func(minute int, failed, expired int64) ops.Snapshot {
		return ops.Snapshot{
			At: at.Add(time.Duration(minute) * time.Minute),
			Counts: stats.Counts{
				Totals:  stats.Totals{Failed: failed, Expired: expired},
				Reasons: []stats.EndReason{{Status: "expired", Reason: "max_defer", Count: expired}},
			},
			Processes: []ops.Process{ops.NewProcess(stats.Process{ID: "p"}, ops.Report{
				Ends: []stats.EndReason{{Status: "failed", Reason: "permanent: 400", Count: failed}},
			})},
		}
	}
	got := looks(t, look(0, 100, 10), look(1, 103, 10), look(2, 104, 12)).Ended
	want := ops.Ended{Since: at, Failed: 4, Expired: 2, Reasons: []stats.EndReason{
		{Status: "failed", Reason: "permanent: 400", Count: 4}, {Status: "expired", Reason: "max_defer", Count: 2},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("within minutes (-want +got):\n%s", diff)
	}
	got = looks(t, look(0, 100, 10), look(1, 103, 10), look(90, 104, 10)).Ended
	want = ops.Ended{Since: at.Add(90 * time.Minute), Failed: 1, Reasons: []stats.EndReason{
		{Status: "failed", Reason: "permanent: 400", Count: 1},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after more than an hour (-want +got):\n%s", diff)
	}
}
