//go:build accept

package e2e_test

import (
	"maps"
	"net"
	"net/http/httptest"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// A burst of one user without limits uses the room of all processes, though one wake-up stands for all of it.
func TestBurstOfOneUser(t *testing.T) {
	const burst, delay, inFlight = 10_000, 200 * time.Millisecond, 512
	d, r := deploy(t, "version: 1\ncategories:\n  default: {limits: []}\n", 2), newReceiver(t)
	r.delay = delay
	hosts := r.onManyHosts(t)
	var items []item
	for i := range burst {
		items = append(items, item{UserID: "ada", To: hosts[i%len(hosts)]})
	}
	ids := d.accept(d.workers[0], items)
	d.drain(d.workers[0], 2*time.Minute)
	got := r.deliveries()
	slices.SortFunc(got, func(a, b delivery) int { return a.Arrived.Compare(b.Arrived) })
	lost, duplicates := compare(ids, got)
	took, best := got[len(got)-1].Arrived.Sub(got[0].Arrived), time.Duration((burst-inFlight)/inFlight)*delay
	t.Logf("%d of one user, targets respond in %s, 2 processes of 256: %s, %.2f of what %d in flight allow (%s), %d lost, %d doubled",
		burst, delay, took, best.Seconds()/took.Seconds(), inFlight, best, lost, duplicates)
	if lost+duplicates > 0 || best.Seconds() < 0.9*took.Seconds() {
		t.Error("outside the bounds: nothing lost or doubled, 0.9 of what 512 in flight allow")
	}
}

// onManyHosts gives URLs of the receiver on 16 hosts: each has its own bound of calls in flight, and all of 127.0.0.0/8
// is this machine.
func (r *receiver) onManyHosts(t *testing.T) (urls []string) {
	t.Helper()
	everywhere := httptest.NewUnstartedServer(r.server.Config.Handler)
	listener, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	everywhere.Listener = listener
	everywhere.Start()
	t.Cleanup(everywhere.Close)
	for i := range 16 {
		urls = append(urls, "http://127.0.0."+strconv.Itoa(1+i)+":"+port)
	}
	return urls
}

// What a dead worker held comes again as soon as it was not heard of for some seconds.
func TestWorkerKilledWithWakeups(t *testing.T) {
	const users, period = 5000, 12 * time.Second
	policy := "version: 1\ncategories:\n  default: {limits: [{max: 1, per: 12s}]}\n"
	d, r := deploy(t, policy, 2), newReceiver(t)
	other := d.workers[1]
	signal := func(s syscall.Signal) {
		t.Helper()
		if err := other.process.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP) // all wake-ups are the first one's
	var items []item
	for range 2 {
		for i := range users {
			items = append(items, item{UserID: "user-" + strconv.Itoa(i), To: r.server.URL})
		}
	}
	ids := d.accept(d.workers[0], items)
	for len(r.deliveries()) < users {
		<-time.After(20 * time.Millisecond)
	}
	first := map[string]throttle.Micros{}
	for _, g := range r.deliveries() {
		first[g.User] = g.AdmittedAt
	}
	// Its wake-ups are at work in the last second and a half before their moments.
	begun := slices.Min(slices.Collect(maps.Values(first)))
	<-time.After(time.Until(begun.Time().Add(period - 100*time.Millisecond)))
	signal(syscall.SIGCONT)
	if err := d.workers[0].process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	held := d.stats(other).Totals.Pulls - users
	d.drain(other, 2*time.Minute)
	got := r.deliveries()
	lost, duplicates := compare(ids, got)
	late := time.Duration(0)
	for _, g := range got {
		if g.AdmittedAt > first[g.User] {
			late = max(late, g.AdmittedAt.Sub(first[g.User])-period)
		}
	}
	t.Logf("a worker killed with about %d wake-ups: the last came %s after its moment, %d lost, %d doubled", held, late,
		lost, duplicates)
	if lost > 0 || late > 6*time.Second {
		t.Error("outside the bounds: nothing lost, 6 s")
	}
}
