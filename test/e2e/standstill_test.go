//go:build accept

package e2e_test

import (
	"bufio"
	"encoding/json"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/apitest"
)

// A standstill of all workers is seen in the lateness of what they deliver afterwards, to its full length: in the
// metric and on the dashboard.
func TestLatenessTellsOfAStandstill(t *testing.T) {
	for name, start := range map[string]func(*testing.T, string, int) *deployment{
		"Redis": deploy, "Postgres": deployDurable,
	} {
		t.Run(name, func(t *testing.T) {
			standStill(t, start(t, "version: 1\ncategories:\n  default: {min_gap: 3s}\n", 2))
		})
	}
}

func standStill(t *testing.T, d *deployment) {
	t.Helper()
	const users, stands, period = 10, 34 * time.Second, 3 * time.Second
	r := newReceiver(t)
	var items []item
	for range 20 {
		for i := range users {
			items = append(items, item{UserID: "user-" + strconv.Itoa(i), To: r.server.URL})
		}
	}
	d.accept(d.workers[0], items)
	for len(r.deliveries()) < 3*users {
		<-time.After(20 * time.Millisecond)
	}
	if n := d.lateBy(stands - period - time.Second); n > 0 {
		t.Fatalf("%d deliveries are late before anybody stood still", n)
	}
	signal := func(s syscall.Signal) {
		for _, w := range d.workers {
			if err := w.process.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	signal(syscall.SIGSTOP)
	<-time.After(stands)
	signal(syscall.SIGCONT)
	for had := len(r.deliveries()); len(r.deliveries()) < had+2*users; {
		<-time.After(20 * time.Millisecond)
	}
	late := d.lateBy(stands - period - time.Second)
	shown := d.latenessShown(d.workers[0])
	t.Logf("after %s without workers %d deliveries of %d users were late by at least %s; the dashboard says p99 %.1f s", stands,
		late, users, stands-period-time.Second, shown)
	if late < users-1 || late > 2*users || shown < (stands-period-time.Second).Seconds() {
		t.Error("outside the bounds: one late delivery of each user, and p99 as long as the standstill")
	}
}

// lateBy counts the deliveries of all processes whose lateness is above the largest bound of a bucket below a duration.
func (d *deployment) lateBy(late time.Duration) (n int) {
	d.t.Helper()
	for _, w := range d.workers {
		response, err := apitest.Once.Get("http://" + w.ops + "/metrics")
		if err != nil {
			d.t.Fatal(err)
		}
		all, below := 0, 0
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			bound, count, found := strings.Cut(strings.TrimPrefix(lines.Text(), `pacer_delivery_lateness_seconds_bucket{le="`), `"} `)
			if !found || !strings.HasPrefix(lines.Text(), "pacer_delivery_lateness") {
				continue
			}
			value, _ := strconv.Atoi(count)
			if seconds, err := strconv.ParseFloat(bound, 64); err == nil && seconds <= late.Seconds() {
				below = value
			}
			all = value
		}
		_ = response.Body.Close()
		n += all - below
	}
	return n
}

// latenessShown is what the dashboard says of the last minute, once it has looked again.
func (d *deployment) latenessShown(w *worker) float64 {
	d.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; <-time.After(500 * time.Millisecond) {
		response, err := apitest.Once.Get("http://" + w.ops + "/snapshot")
		if err != nil {
			d.t.Fatal(err)
		}
		var s struct{ Lateness struct{ P99 float64 } }
		err = json.NewDecoder(response.Body).Decode(&s)
		_ = response.Body.Close()
		if err == nil && s.Lateness.P99 > 1 || time.Now().After(deadline) {
			return s.Lateness.P99
		}
	}
}
