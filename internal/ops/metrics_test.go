package ops_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/retime"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/test/transcript"
)

// promised are the names, kinds and labels that dashboards and alerts rely on. A name may be added; changing one breaks
// somebody's dashboard.
var promised = []string{
	"pacer_accepted_total counter category",
	"pacer_deferrals_total counter category,rule",
	"pacer_deferred_oldest_seconds gauge",
	"pacer_deliveries_total counter channel,outcome",
	"pacer_delivery_lateness_seconds histogram",
	"pacer_end_to_end_seconds histogram",
	"pacer_notifications gauge state",
	"pacer_provider_seconds histogram channel",
	"pacer_pulls_total counter", "pacer_quiet_held gauge", "pacer_held_overdue gauge",
	"pacer_throttle_decision_seconds histogram",
}

var waiting = ops.Gauges{
	Counts: stats.Counts{
		Queued: 1, Scheduled: 2, Deferred: 3, Retrying: 4, Sending: 5, OldestDeferredSeconds: 1.5, UsersDeferred: 6,
		Waiting:    stats.Waiting{Throttle: 1, QuietHours: 2, Digest: 1},
		Partitions: []stats.Partition{{Partition: 0}, {Partition: 1, Deferred: 3, HeldOver: 1}},
	},
	MaxDefer: time.Hour,
	Paused:   []control.Subject{{Kind: control.Channel, Name: "fcm"}},
	Evicts:   true, Breakers: []push.Breakers{{Channel: "fcm", Open: 1}},
	InFlight: 7, Concurrency: 8, Workers: 2, Gone: 1, ClocksApart: 2.5, Up: map[string]bool{"redis": true},
}

// newRegistry has everything registered that this package makes.
func newRegistry(t *testing.T, read func(context.Context) (ops.Gauges, error)) (*prometheus.Registry, *ops.Metrics) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	metrics, err := ops.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	if err := registry.Register(ops.NewGaugeCollector(read)); err != nil {
		t.Fatal(err)
	}
	return registry, metrics
}

// A change of the policy shows how far it is.
func TestRetimeIsExposed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		progress   retime.Progress
		done, left int
	}{
		{},
		{progress: retime.Progress{Users: 7, Done: 3}, done: 3, left: 4},
		{progress: retime.Progress{Users: 7, Done: 6, Ended: time.Now()}, done: 6},
	} {
		registry, _ := newRegistry(t, func(context.Context) (ops.Gauges, error) {
			return ops.Gauges{Retime: c.progress}, nil
		})
		const text = "pacer_retime_users{state=\"done\"} %d\npacer_retime_users{state=\"left\"} %d\n"
		want := fmt.Sprintf(text, c.done, c.left)
		if got := exposed(t, registry, "pacer_retime_users"); got != want {
			t.Errorf("%+v: %s, want %s", c.progress, got, want)
		}
	}
}

// exposed is what the metrics page shows of these metrics, without their descriptions.
func exposed(t *testing.T, registry *prometheus.Registry, names ...string) string {
	t.Helper()
	cfg := config()
	cfg.Metrics = registry
	var text strings.Builder
	for line := range strings.Lines(ask(t, cfg, "GET", "/metrics").Body.String()) {
		if end := strings.IndexAny(line, " {"); end > 0 && slices.Contains(names, line[:end]) {
			text.WriteString(line)
		}
	}
	return text.String()
}

func read(context.Context) (ops.Gauges, error) { return waiting, nil }

// use lets every metric have a value.
func use(m *ops.Metrics) {
	n := &notification.Notification{ID: "n-1", UserID: "u-secret", Channel: notification.ChannelWebhook}
	m.Accepted("chat")
	m.Pulled(1)
	m.Decided(time.Millisecond)
	m.Deferred("chat", "1 per 3s", 1)
	m.Shadowed("chat", "2 per 1h")
	m.Overflowed("chat", "drop_new")
	n.Digest = &notification.Digest{Count: 4}
	m.Sent(n, time.Second, time.Millisecond, time.Minute, nil)
	m.Sent(n, time.Second, time.Millisecond, time.Minute, &push.Error{Class: push.TargetGone, Code: "410"})
	m.Repaired(dispatch.Repairs{LeasesEnded: 1, Expired: 2, Woken: 3})
}

func TestMetricsHaveTheirPromisedNames(t *testing.T) {
	t.Parallel()
	registry, metrics := newRegistry(t, read)
	use(metrics)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got, help []string
	for _, family := range families {
		labels := map[string]bool{}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = true
				if strings.Contains(label.GetName(), "user") || strings.Contains(label.GetValue(), "u-secret") {
					t.Errorf("%s tells of a user: %s=%q", family.GetName(), label.GetName(), label.GetValue())
				}
			}
		}
		line := []string{family.GetName(), strings.ToLower(family.GetType().String())}
		if len(labels) > 0 {
			line = append(line, strings.Join(slices.Sorted(maps.Keys(labels)), ","))
		}
		got = append(got, strings.Join(line, " "))
		help = append(help, strings.Join(line, " ")+": "+family.GetHelp()+"\n")
	}
	for _, name := range promised {
		if !slices.Contains(got, name) {
			t.Errorf("%s is promised, and is not among\n%s", name, strings.Join(got, "\n"))
		}
	}
	transcript.Equal(t, "testdata/metrics.txt", strings.Join(help, ""))
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("they break the conventions: %v, %v", problems, err)
	}
}

func TestCountersCountByLabel(t *testing.T) {
	t.Parallel()
	registry, metrics := newRegistry(t, read)
	use(metrics)
	metrics.Accepted("chat")
	metrics.Accepted("default")
	want := `pacer_accepted_total{category="chat"} 2
pacer_accepted_total{category="default"} 1
pacer_deferrals_total{category="chat",rule="1 per 3s"} 1
pacer_deliveries_total{channel="webhook",outcome="delivered"} 1
pacer_deliveries_total{channel="webhook",outcome="target_gone"} 1
pacer_pulls_total 1
pacer_repairs_total{kind="expired"} 2
pacer_repairs_total{kind="lease"} 1
pacer_repairs_total{kind="wakeup"} 3
`
	got := exposed(t, registry, "pacer_accepted_total", "pacer_deferrals_total", "pacer_deliveries_total",
		"pacer_pulls_total", "pacer_repairs_total")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counters differ (-want +got):\n%s", diff)
	}
}

// Each kind of repair and each outcome is told from the beginning: Prometheus sees no increase in a counter that
// never was 0, and an alert would miss the first.
func TestCountersBeginAtZero(t *testing.T) {
	t.Parallel()
	registry, metrics := newRegistry(t, read)
	metrics.Delivering([]string{"fcm"})
	want := `pacer_deliveries_total{channel="fcm",outcome="ambiguous"} 0
pacer_deliveries_total{channel="fcm",outcome="credentials_refused"} 0
pacer_deliveries_total{channel="fcm",outcome="delivered"} 0
pacer_deliveries_total{channel="fcm",outcome="permanent"} 0
pacer_deliveries_total{channel="fcm",outcome="target_gone"} 0
pacer_deliveries_total{channel="fcm",outcome="throttled"} 0
pacer_deliveries_total{channel="fcm",outcome="transient"} 0
pacer_repairs_total{kind="expired"} 0
pacer_repairs_total{kind="lease"} 0
pacer_repairs_total{kind="wakeup"} 0
`
	if diff := cmp.Diff(want, exposed(t, registry, "pacer_deliveries_total", "pacer_repairs_total")); diff != "" {
		t.Errorf("counters differ (-want +got):\n%s", diff)
	}
}

// Times are seconds. From end to end only what was delivered counts: a failure has no end yet.
func TestHistograms(t *testing.T) {
	t.Parallel()
	registry, metrics := newRegistry(t, read)
	use(metrics)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	type sum struct {
		Count uint64
		Sum   float64
	}
	got := map[string]sum{}
	for _, family := range families {
		if h := family.GetMetric()[0].GetHistogram(); h != nil {
			got[family.GetName()] = sum{h.GetSampleCount(), h.GetSampleSum()}
		}
	}
	want := map[string]sum{
		"pacer_delivery_lateness_seconds": {Count: 2, Sum: 0.002},
		"pacer_digest_items":              {Count: 1, Sum: 4},
		"pacer_end_to_end_seconds":        {Count: 1, Sum: 60},
		"pacer_provider_seconds":          {Count: 2, Sum: 2},
		"pacer_throttle_decision_seconds": {Count: 1, Sum: 0.001},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("histograms differ (-want +got):\n%s", diff)
	}
}

func TestGaugesShowTheDeployment(t *testing.T) {
	t.Parallel()
	registry, _ := newRegistry(t, read)
	want := `pacer_deferred_oldest_seconds 1.5
pacer_digest_held 1
pacer_held_overdue 1
pacer_notifications{state="deferred"} 3
pacer_notifications{state="queued"} 1
pacer_notifications{state="retrying"} 4
pacer_notifications{state="scheduled"} 2
pacer_notifications{state="sending"} 5
pacer_partition_deferred{partition="0"} 0
pacer_partition_deferred{partition="1"} 3
pacer_quiet_held 2
pacer_users_deferred 6
`
	got := exposed(t, registry, "pacer_deferred_oldest_seconds", "pacer_partition_deferred", "pacer_notifications",
		"pacer_quiet_held", "pacer_digest_held", "pacer_held_overdue", "pacer_users_deferred")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("gauges differ (-want +got):\n%s", diff)
	}
}

// What the agendas ended is told for each of their reasons from the beginning, so that the first one counts.
func TestEndsAreToldByReason(t *testing.T) {
	t.Parallel()
	g := waiting
	g.Reasons = []stats.EndReason{{Status: "expired", Reason: "max_defer", Count: 3}}
	registry, _ := newRegistry(t, func(context.Context) (ops.Gauges, error) { return g, nil })
	got := exposed(t, registry, "pacer_ends_total")
	for _, want := range []string{
		`pacer_ends_total{reason="max_defer"} 3`, `pacer_ends_total{reason="expires_at"} 0`,
		`pacer_ends_total{reason="crash_loop"} 0`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
}

// A counter that falls counts from 0 again, so one that lacks a partition would page for all that it ever counted.
func TestEndsAreNotToldWithoutAPartition(t *testing.T) {
	t.Parallel()
	g := waiting
	g.Reasons = []stats.EndReason{{Status: "failed", Reason: "crash_loop", Count: 3}}
	g.Partial, g.Partitions = true, []stats.Partition{{Partition: 0}, {Partition: 1, Unreachable: true}}
	registry, _ := newRegistry(t, func(context.Context) (ops.Gauges, error) { return g, nil })
	if got := exposed(t, registry, "pacer_ends_total"); got != "" {
		t.Errorf("it tells %s", got)
	}
}

// While the store is away the graph shows a gap, not zeros. What the process knows of itself is there all the same.
func TestGaugesThatCannotBeReadAreLeftOut(t *testing.T) {
	t.Parallel()
	known := waiting
	known.Secrets = []ops.Secret{{Name: "webhook"}}
	registry, metrics := newRegistry(t, func(ctx context.Context) (ops.Gauges, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("a scrape may take for ever")
		}
		return known, errors.New("redis is away")
	})
	metrics.Pulled(1)
	families, err := registry.Gather()
	if err != nil {
		t.Errorf("the scrape fails: %v", err)
	}
	var names []string
	for _, family := range families {
		names = append(names, family.GetName())
	}
	for _, gauge := range []string{
		"pacer_deferred_oldest_seconds", "pacer_partition_deferred", "pacer_notifications", "pacer_users_deferred",
	} {
		if slices.Contains(names, gauge) {
			t.Errorf("%s has a value although it can't be read", gauge)
		}
	}
	for _, name := range []string{
		"pacer_pulls_total", "pacer_store_up", "pacer_in_flight", "pacer_concurrency", "pacer_breakers_open",
		"pacer_max_defer_seconds", "pacer_policy_info", "pacer_policy_loaded_timestamp_seconds", "pacer_policy_refused",
		"pacer_secret_refused", "pacer_secret_renewed_timestamp_seconds",
	} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is missing: %v", name, names)
		}
	}
}
