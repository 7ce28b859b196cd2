package deploy_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/pacer-notify/pacer/internal/httpapi"
	"github.com/pacer-notify/pacer/internal/ops"
)

// promtool runs Prometheus's own checks.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("promtool is not installed: run make install-servers")
	}
	if out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// rule is one of alerts.yml.
type rule struct {
	Alert       string
	Expr        string
	Annotations map[string]string
}

func alerts(t *testing.T) []rule {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal([]byte(readFile(t, "deploy/prometheus/alerts.yml")), &file); err != nil {
		t.Fatal(err)
	}
	return file.Groups[0].Rules
}

// metricNames are those that pacer has, with the series of its histograms.
func metricNames(t *testing.T) []string {
	t.Helper()
	registry := prometheus.NewRegistry()
	if _, err := ops.NewMetrics(registry); err != nil {
		t.Fatal(err)
	}
	if err := (&ops.Reader{}).Register(registry); err != nil {
		t.Fatal(err)
	}
	if _, err := httpapi.New(httpapi.Config{Metrics: registry}); err != nil {
		t.Fatal(err)
	}
	descs := make(chan *prometheus.Desc, 100)
	registry.Describe(descs)
	close(descs)
	var names []string
	for desc := range descs {
		name := regexp.MustCompile(`fqName: "([^"]*)"`).FindStringSubmatch(desc.String())[1]
		names = append(names, name, name+"_bucket", name+"_count")
	}
	return names
}

// known wants every metric of an expression to exist.
func known(t *testing.T, where, expr string, names []string) {
	t.Helper()
	for _, name := range regexp.MustCompile(`\bpacer_\w+`).FindAllString(expr, -1) {
		if !slices.Contains(names, name) {
			t.Errorf("%s asks for %s, which does not exist", where, name)
		}
	}
}

// Every alert is sound, is proved to fire and to be calm, asks for metrics that exist, and has its section in the
// runbook.
func TestAlerts(t *testing.T) {
	t.Parallel()
	folder := filepath.Join("..", "..", "deploy", "prometheus")
	promtool(t, "check", "rules", filepath.Join(folder, "alerts.yml"))
	promtool(t, "test", "rules", filepath.Join(folder, "alerts_test.yml"))
	names, proofs, runbook := metricNames(t), readFile(t, "deploy/prometheus/alerts_test.yml"),
		readFile(t, "docs/runbook.md")
	rules := alerts(t)
	if len(rules) < 10 {
		t.Fatalf("only %d alerts are read", len(rules))
	}
	for _, r := range rules {
		known(t, r.Alert, r.Expr, names)
		if !strings.Contains(proofs, "name: "+r.Alert+" fires") ||
			!strings.Contains(proofs, "name: "+r.Alert+" is calm") {
			t.Errorf("nothing proves %s", r.Alert)
		}
		if !strings.Contains(runbook, "\n## "+r.Alert+"\n") ||
			!strings.HasSuffix(r.Annotations["runbook_url"], "docs/runbook.md#"+strings.ToLower(r.Alert)) {
			t.Errorf("the runbook has no section for %s, or its URL leads elsewhere", r.Alert)
		}
	}
	if sections := strings.Count(runbook, "\n## Pacer"); sections != len(rules) { // the others answer questions
		t.Errorf("the runbook has %d sections for %d alerts", sections, len(rules))
	}
}

// counted is a counter in an expression, with the labels that are asked for.
var counted = regexp.MustCompile(`(?:increase|rate)\((pacer_\w+?)(?:_bucket)?(?:\{([^}]*)\})?\[`)

// What an alert counts is told as 0 from the beginning. Prometheus sees no increase when the first that a process
// tells of a counter is not 0, so the alert would miss the first batch.
func TestWhatAlertsCountBeginsAtZero(t *testing.T) {
	t.Parallel()
	told, asked := toldAtStart(t), 0
	for _, r := range alerts(t) {
		for _, counter := range counted.FindAllStringSubmatch(r.Expr, -1) {
			asked++
			labels := map[string]string{}
			for _, label := range regexp.MustCompile(`(\w+)="([^"]*)"`).FindAllStringSubmatch(counter[2], -1) {
				labels[label[1]] = label[2]
			}
			if !slices.ContainsFunc(told[counter[1]], func(m *dto.Metric) bool { return has(m, labels) }) {
				t.Errorf("%s counts %s%v, which a process that has just started does not tell", r.Alert,
					counter[1], labels)
			}
		}
	}
	if asked < 8 {
		t.Errorf("only %d counters are found in the alerts", asked)
	}
}

// toldAtStart are the metrics of a process in which nothing has happened, by name.
func toldAtStart(t *testing.T) map[string][]*dto.Metric {
	t.Helper()
	registry := prometheus.NewRegistry()
	metrics, err := ops.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	metrics.Delivering([]string{"fcm", "webhook"})
	nothing := func(context.Context) (ops.Gauges, error) { return ops.Gauges{}, nil }
	registry.MustRegister(ops.NewGaugeCollector(nothing))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	told := map[string][]*dto.Metric{}
	for _, family := range families {
		told[family.GetName()] = family.GetMetric()
	}
	return told
}

// has reports whether a metric has these labels, and maybe others.
func has(m *dto.Metric, labels map[string]string) bool {
	found := 0
	for _, label := range m.GetLabel() {
		if value, asked := labels[label.GetName()]; asked && value == label.GetValue() {
			found++
		}
	}
	return found == len(labels)
}

// The dashboard for Grafana can be read, and asks in sound expressions for metrics that exist.
func TestGrafanaDashboard(t *testing.T) {
	t.Parallel()
	var dashboard struct {
		Title  string
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal([]byte(readFile(t, "deploy/grafana/pacer.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	names, rules, ids := metricNames(t), "groups:\n- name: grafana\n  rules:\n", map[int]bool{}
	for _, panel := range dashboard.Panels {
		if len(panel.Targets) == 0 || ids[panel.ID] || panel.GridPos.W == 0 || panel.GridPos.X+panel.GridPos.W > 24 {
			t.Errorf("panel %q is not placed right", panel.Title)
		}
		ids[panel.ID] = true
		for _, target := range panel.Targets {
			known(t, panel.Title, target.Expr, names)
			expr, err := json.Marshal(strings.ReplaceAll(target.Expr, "$__rate_interval", "1m"))
			if err != nil {
				t.Fatal(err)
			}
			rules += "  - {record: 'a:b', expr: " + string(expr) + ", labels: {n: '" +
				strings.ReplaceAll(target.LegendFormat, "'", "") + string(rune('a'+len(ids))) + "'}}\n"
		}
	}
	if dashboard.Title != "pacer" || len(ids) < 10 {
		t.Errorf("%q has %d panels", dashboard.Title, len(ids))
	}
	file := filepath.Join(t.TempDir(), "grafana.yml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", "--lint=none", file)
}
