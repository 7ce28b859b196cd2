package app_test

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/app"
)

// gauge is the deferred count that a process's metrics tell; -1 while they tell none.
func (d *fleet) gauge(process *app.App) int {
	d.t.Helper()
	found := regexp.MustCompile(`(?m)^pacer_notifications\{state="deferred"\} (\S+)$`).FindStringSubmatch(d.opsPage(process, "/metrics"))
	if found == nil {
		return -1
	}
	n, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		d.t.Fatal(err)
	}
	return int(n)
}

// awaitGauge waits until every process tells a deferred count.
func (d *fleet) awaitGauge(when string, want int) {
	d.t.Helper()
	for _, process := range d.apps {
		for deadline := time.Now().Add(patience); d.gauge(process) != want; <-time.After(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				d.t.Fatalf("%s the gauge is %d, want %d", when, d.gauge(process), want)
			}
		}
	}
}

// The deferred gauge tells the truth after all of Redis was lost and after the policy changed, and Prometheus finds
// nothing to criticise in the metrics.
func TestDeferredGauge(t *testing.T) {
	t.Parallel()
	d, r := newDeployment(t, onPostgres, crowdPolicy, 2), newReceiver(t)
	d.bulk(r.crowd("ada", "slow", 7))
	d.bulk(r.crowd("ben", "slow", 4))
	d.awaitGauge("with two crowds", 9)

	options, err := redis.ParseURL(d.redisURL)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	if err := client.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	d.awaitGauge("after Redis was emptied", 9)

	d.writePolicy(strings.Replace(crowdPolicy, "{max: 1, per: 1h}", "{max: 3, per: 1h}", 1))
	for _, process := range d.apps {
		if err := process.ReloadPolicy(); err != nil {
			t.Fatal(err)
		}
	}
	d.awaitGauge("under a looser policy", 5)
	d.awaitStats("what the looser policy let go is delivered", func(s stats) bool {
		return s.Deferred == 5 && s.Totals.Delivered == 6
	})

	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("promtool is not installed: run make install-servers")
	}
	check := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	check.Stdin = strings.NewReader(d.opsPage(d.apps[0], "/metrics"))
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// A worker tells all outcomes of the channels that it delivers over before there are any.
func TestOutcomesBeginAtZero(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, onRedis, crowdPolicy, 1)
	page := d.opsPage(d.apps[0], "/metrics")
	for _, want := range []string{
		`pacer_deliveries_total{channel="webhook",outcome="credentials_refused"} 0`,
		`pacer_deliveries_total{channel="log",outcome="delivered"} 0`,
	} {
		if !strings.Contains(page, want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
}
