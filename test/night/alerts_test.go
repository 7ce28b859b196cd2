package night_test

import (
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// series are the values of the metrics, by name and labels.
type series map[string]float64

// instanced puts the process into the labels of a metric, as Prometheus does.
var instanced = regexp.MustCompile(`^(\w+)(?:\{(.*)\})?$`)

// scrape reads the metrics of every process, as Prometheus does. One that does not respond has none.
func (d *deployment) scrape() series {
	d.Helper()
	all := series{}
	for _, p := range d.processes {
		status, text := d.request(http.MethodGet, "http://"+p.ops+"/metrics", "")
		if status != http.StatusOK {
			continue
		}
		for line := range strings.Lines(text) {
			end := strings.LastIndexByte(line, ' ')
			if !strings.HasPrefix(line, "pacer_") || end < 0 {
				continue
			}
			metric := line[:end]
			number, err := strconv.ParseFloat(strings.TrimSpace(line[end:]), 64)
			if err != nil {
				d.Fatalf("the metric %s", line)
			}
			parts := instanced.FindStringSubmatch(metric)
			labels := fmt.Sprintf("instance=%q", p.name)
			if parts[2] != "" {
				labels += "," + parts[2]
			}
			all[parts[1]+"{"+labels+"}"] = number
		}
	}
	return all
}

// calmNow takes the metrics as they are now for those before the trouble.
func (d *deployment) calmNow() {
	d.Helper()
	d.await("there are metrics", func() bool {
		d.calm = d.scrape()
		return len(d.calm) > 0
	})
}

// lasts is for how many minutes the trouble goes on: longer than any alert waits.
const lasts = 95

// firing says which alerts fire at some time, if the metrics were those of before, and a minute later those of now, and
// the trouble went on: gauges stay, and counters go on counting as fast. Prometheus's own program evaluates them.
//
// That deliveries are late is left out, unless it is expected: other tests on the machine make deliveries late, too.
func (d *deployment) firing(expected []string, before, now series) []string {
	d.Helper()
	var text strings.Builder
	rules, err := filepath.Abs("../../deploy/prometheus/alerts.yml")
	if err != nil {
		d.Fatal(err)
	}
	fmt.Fprintf(&text, "rule_files: [%q]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n", rules)
	all := maps.Clone(before)
	maps.Copy(all, now)
	for name := range all {
		fmt.Fprintf(&text, "      - {series: '%s', values: '%s'}\n", name, course(name, before, now))
	}
	fmt.Fprintf(&text, "    promql_expr_test:\n      - expr: %s\n        eval_time: %dm\n        exp_samples: []\n",
		`'max by (alertname) (max_over_time(ALERTS{alertstate="firing"}[2h]))'`, lasts)
	program, err := exec.LookPath("promtool")
	if err != nil {
		d.Fatal("promtool is not installed: run make install-servers")
	}
	out, err := exec.CommandContext(d.Context(), program, "test", "rules", d.file("night.yml", text.String())).
		CombinedOutput()
	var names []string
	for _, match := range regexp.MustCompile(`alertname="(\w+)"`).FindAllStringSubmatch(string(out), -1) {
		if (match[1] != "PacerLate" || slices.Contains(expected, match[1])) && !slices.Contains(names, match[1]) {
			names = append(names, match[1])
		}
	}
	if err != nil && !strings.Contains(string(out), "got:") {
		d.Fatalf("promtool: %v\n%s", err, out)
	}
	slices.Sort(names)
	return names
}

// course is a metric's course in the notation of promtool: its value before, now, and in each minute after.
func course(name string, before, now series) string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	first, last := "_", fmt.Sprintf("_x%d", lasts)
	was, had := before[name]
	if had {
		first = number(was)
	}
	if value, has := now[name]; has {
		metric, _, _ := strings.Cut(name, "{")
		step := 0.0
		if slices.ContainsFunc([]string{"_total", "_bucket", "_count", "_sum"}, func(end string) bool {
			return strings.HasSuffix(metric, end)
		}) {
			step = max(0, value-was)
		}
		last = fmt.Sprintf("%s+%sx%d", number(value), number(step), lasts)
	}
	return first + " " + last
}
