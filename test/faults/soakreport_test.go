//go:build faults && soak

package faults_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/redis/go-redis/v9"
)

// measured are what must stay flat, in the order of the report, and how much each may grow from the end of the warm-up
// to the end: a part of what there was, and an amount besides.
var measured = []string{"rss_mib", "goroutines", "files", "redis_keys", "redis_mib", "postgres_connections"}

var allowances = map[string]struct{ part, amount float64 }{
	"rss_mib":              {part: 0.15, amount: 16},
	"goroutines":           {part: 0.15, amount: 30},
	"files":                {part: 0.15, amount: 20},
	"redis_keys":           {part: 0.20, amount: 500},
	"redis_mib":            {part: 0.20, amount: 4},
	"postgres_connections": {part: 0.15, amount: 6},
}

// warmUp is how long things may grow until they are as large as they should be: Redis remembers what ended for a
// minute.
const warmUp = 90 * time.Second

// figuresOf reads what a process says of itself.
func figuresOf(text io.Reader) (map[string]float64, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return nil, err
	}
	figures := map[string]float64{}
	for _, name := range []string{"process_resident_memory_bytes", "go_goroutines", "process_open_fds"} {
		if family := families[name]; family != nil && len(family.GetMetric()) == 1 {
			figures[name] = family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return figures, nil
}

// measure takes the largest of the processes' figures, and the stores'. It fails while a fault keeps one from
// responding.
func (d *deployment) measure(client *redis.Client) (reading, bool) {
	r := reading{at: time.Now(), values: map[string]float64{}}
	for _, w := range d.processes() {
		figures, ok := w.metrics()
		if !ok {
			return r, false
		}
		r.values["rss_mib"] = max(r.values["rss_mib"], figures["process_resident_memory_bytes"]/(1<<20))
		r.values["goroutines"] = max(r.values["goroutines"], figures["go_goroutines"])
		r.values["files"] = max(r.values["files"], figures["process_open_fds"])
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	keys, err := client.DBSize(ctx).Result()
	if err != nil {
		return r, false
	}
	memory, err := client.InfoMap(ctx, "memory").Result()
	if err != nil {
		return r, false
	}
	used := 0.0
	if _, err := fmt.Sscan(memory["Memory"]["used_memory"], &used); err != nil {
		return r, false
	}
	connections, err := d.query("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
	if err != nil {
		return r, false
	}
	r.values["redis_keys"], r.values["redis_mib"], r.values["postgres_connections"] = float64(keys), used/(1<<20),
		float64(connections)
	return r, true
}

// soakReport is what a soak found. It goes to the test's output and into the file SOAK_REPORT.
type soakReport struct {
	t       *testing.T
	start   time.Time
	lines   []string
	faults  []string // what is wrong
	met     int
	samples []reading
}

func newSoakReport(t *testing.T) *soakReport { return &soakReport{t: t, start: time.Now()} }

func (r *soakReport) say(format string, args ...any) {
	line := fmt.Sprintf("%6.0f s  ", time.Since(r.start).Seconds()) + fmt.Sprintf(format, args...)
	r.lines = append(r.lines, line)
	fmt.Println(line)
}

func (r *soakReport) blame(format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
	r.say("WRONG: "+format, args...)
}

func (r *soakReport) fault(name string) {
	r.met++
	r.say("fault %s", name)
}

// recovered waits until deliveries go on after a fault.
func (r *soakReport) recovered(d *deployment, name string) {
	over, before := time.Now(), d.receiver.count()
	if eventually(time.Minute, func() bool { return d.receiver.count() >= before+10 }) {
		r.say("fault %s is over, deliveries go on after %.1f s", name, time.Since(over).Seconds())
	} else {
		r.blame("deliveries do not go on within a minute after %s", name)
	}
}

// flat checks that nothing grew: the slope over what was measured after the warm-up, times its length.
func (r *soakReport) flat() {
	samples := slices.DeleteFunc(slices.Clone(r.samples), func(s reading) bool { return s.at.Sub(r.start) < warmUp })
	if len(samples) < 5 {
		r.blame("only %d samples after the warm-up of %s: nothing can be said of growth; soak for longer", len(samples),
			warmUp)
		return
	}
	for _, name := range measured {
		begin, growth := trend(samples, name)
		allowed := allowances[name]
		limit := begin*allowed.part + allowed.amount
		r.say("%-22s %9.1f at the end of the warm-up, %+8.1f by the end (allowed %+.1f)", name, begin, growth, limit)
		if growth > limit {
			r.blame("%s grew by %.1f", name, growth)
		}
	}
}

// trend is the level at the beginning and the growth to the end, by the median of all slopes between two samples (Theil
// and Sen's): single samples, taken in the middle of a fault, do not count for much.
func trend(samples []reading, name string) (begin, growth float64) {
	var slopes, values []float64
	for i, a := range samples {
		for _, b := range samples[i+1:] {
			if elapsed := b.at.Sub(a.at).Seconds(); elapsed > 0 {
				slopes = append(slopes, (b.values[name]-a.values[name])/elapsed)
			}
		}
	}
	slope := median(slopes)
	first := samples[0].at
	for _, s := range samples {
		values = append(values, s.values[name]-slope*s.at.Sub(first).Seconds())
	}
	return median(values), slope * samples[len(samples)-1].at.Sub(first).Seconds()
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// write ends the report and fails the test if something was wrong.
func (r *soakReport) write(d *deployment) {
	if d != nil {
		r.faults = append(r.faults, d.faults...)
	}
	r.say("%d faults met, %d things wrong", r.met, len(r.faults))
	if path := os.Getenv("SOAK_REPORT"); path != "" {
		text := strings.Join(r.lines, "\n") + "\n"
		for _, s := range r.samples {
			text += fmt.Sprintf("%6.0f s  %s\n", s.at.Sub(r.start).Seconds(), s)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			r.t.Error(err)
		}
	}
	if len(r.faults) > 0 {
		r.t.Errorf("%s", strings.Join(r.faults, "\n"))
	}
}
