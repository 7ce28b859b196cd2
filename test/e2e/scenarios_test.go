//go:build accept

package e2e_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/chatroom"
)

const crowdPolicy = `version: 1
categories:
  default: {limits: [{max: 20, per: 1s}], min_gap: 10ms}
  slow: {min_gap: 150ms}
  chat: {limits: [{max: 1, per: 3s}, {max: 100, per: 24h}]}
`

var crowdRules = []throttle.Rule{{Max: 20, Per: time.Second}, {Max: 1, Per: 10 * time.Millisecond}}

func crowd(user, category, to string, n int) []item {
	return slices.Repeat([]item{{UserID: user, Category: category, To: to}}, n)
}

// fastest is how long n admissions take under rules at best: each goes as soon as it may.
func fastest(n int, rules ...throttle.Rule) time.Duration {
	log := throttle.Log{Rules: rules}
	var last throttle.Micros
	for range n {
		last, _ = throttle.Next(last, nil, log)
		log.Admitted = append(log.Admitted, last)
	}
	return last.Sub(0)
}

func TestCrowdOf400(t *testing.T) {
	d, r := deploy(t, crowdPolicy, 2), newReceiver(t)
	begin := time.Now()
	ids := d.accept(d.workers[0], crowd("ada", "default", r.server.URL, 400))
	s := d.drain(d.workers[0], 2*time.Minute)
	took, best := time.Since(begin), fastest(400, crowdRules...)
	got := r.deliveries()
	slices.SortFunc(got, func(a, b delivery) int { return int(a.AdmittedAt - b.AdmittedAt) })
	inversions := 0
	for i, g := range got {
		if g.ID != ids[i] {
			inversions++
		}
	}
	lost, duplicates := compare(ids, got)
	pulls := float64(s.Totals.Pulls) / float64(s.Totals.Delivered)
	t.Logf("400 waiting: %.3f pulls per delivered, drained in %s (optimum %s), %d lost, %d doubled, %d violations, %d out of order",
		pulls, took, best, lost, duplicates, violations(got, crowdRules...), inversions)
	if pulls > 1.05 || took > best+best/20+time.Second ||
		lost+duplicates+violations(got, crowdRules...)+inversions > 0 {
		t.Error("outside the bounds: 1.05 pulls, 1.05 × optimum + 1 s, nothing lost, doubled, violated or out of order")
	}
}

// Through a user's cap over ten categories a crowd goes as fast as through one, by priority, then arrival, and the
// queue is asked as rarely.
func TestCapOverTenCategories(t *testing.T) {
	limit := throttle.Rule{Max: 20, Per: time.Second}
	d, r := deploy(t, "version: 1\ncategories:\n  default: {limits: []}\n"+tenCategories()+"user_cap: {limits: [{max: 20, per: 1s}]}\n", 2), newReceiver(t)
	var items []item
	for i := range 400 {
		items = append(items, item{
			UserID: "ada", Category: "c" + strconv.Itoa(i%10),
			Priority: []string{"high", "normal", "low"}[i%7%3], To: r.server.URL,
		})
	}
	begin := time.Now()
	ids := d.accept(d.workers[0], items)
	s := d.drain(d.workers[0], 2*time.Minute)
	took, best := time.Since(begin), fastest(400, limit)
	got := r.deliveries()
	slices.SortFunc(got, func(a, b delivery) int { return int(a.AdmittedAt - b.AdmittedAt) })
	lost, duplicates := compare(ids, got)
	inversions := inverted(items, ids, got[min(limit.Max, len(got)):])
	pulls := float64(s.Totals.Pulls) / float64(s.Totals.Delivered)
	t.Logf("400 waiting in ten categories under a cap: %.3f pulls per delivered, drained in %s (optimum %s), %d lost, %d doubled, %d violations, %d out of order",
		pulls, took, best, lost, duplicates, violations(got, limit), inversions)
	if pulls > 1.1 || took > best+best/20+time.Second || lost+duplicates+violations(got, limit)+inversions > 0 {
		t.Error("outside the bounds: 1.1 pulls, 1.05 × optimum + 1 s, nothing lost, doubled, violated or out of order")
	}
}

// inverted counts the notifications that were admitted before another one that is more urgent, or as urgent and older.
// All that one script admits is admitted at the same moment. The first windowful does not count: it may be admitted
// before the last notification has been accepted.
func inverted(items []item, ids []string, got []delivery) int {
	priorities := map[string]int{"high": 0, "normal": 1, "low": 2}
	places := map[string]int{}
	for i, id := range ids {
		places[id] = priorities[items[i].Priority]*len(ids) + i
	}
	inversions, latest, earlier := 0, 0, 0 // latest place of all, and of all at earlier moments
	for i, g := range got {
		if i > 0 && g.AdmittedAt > got[i-1].AdmittedAt {
			earlier = latest
		}
		if places[g.ID] < earlier {
			inversions++
		}
		latest = max(latest, places[g.ID])
	}
	return inversions
}

// tenCategories are c0 to c9, without limits of their own.
func tenCategories() string {
	text := ""
	for i := range 10 {
		text += fmt.Sprintf("  c%d: {limits: []}\n", i)
	}
	return text
}

func TestQuietUsersBesideACrowd(t *testing.T) {
	d, r := deploy(t, crowdPolicy+"user_cap: {limits: [{max: 5, per: 10s}]}\n", 2), newReceiver(t)
	d.accept(d.workers[0], crowd("noisy", "default", r.server.URL, 300))
	accepted := map[string]time.Time{}
	for i := range 300 {
		user := "quiet-" + strconv.Itoa(i)
		accepted[user] = time.Now()
		d.accept(d.workers[i%2], crowd(user, "chat", r.server.URL, 2))
	}
	deadline := time.Now().Add(30 * time.Second)
	first := map[string]time.Duration{}
	for len(first) < 300 && time.Now().Before(deadline) {
		<-time.After(50 * time.Millisecond)
		for _, g := range r.deliveries() {
			if _, seen := first[g.User]; !seen && g.User != "noisy" {
				first[g.User] = g.Arrived.Sub(accepted[g.User])
			}
		}
	}
	var waits []time.Duration
	for _, wait := range first {
		waits = append(waits, wait)
	}
	slices.Sort(waits)
	got := r.deliveries()
	all := slices.Clone(got)
	for i := range all {
		all[i].Category = "" // the cap is over all categories
	}
	broken := violations(all, throttle.Rule{Max: 5, Per: 10 * time.Second})
	for _, g := range []struct {
		category string
		rules    []throttle.Rule
	}{{"default", crowdRules}, {"chat", []throttle.Rule{{Max: 1, Per: 3 * time.Second}}}} {
		broken += violations(slices.DeleteFunc(slices.Clone(got),
			func(d delivery) bool { return d.Category != g.category }), g.rules...)
	}
	p99 := waits[len(waits)*99/100]
	t.Logf("%d quiet users beside 300 waiting of one: first notification after %s at p99, %d violations", len(first),
		p99, broken)
	if len(first) < 300 || p99 > time.Second || broken > 0 {
		t.Error("outside the bounds: 300 users, 1 s at p99, no violation")
	}
}

func TestWorkersKilledThreeTimes(t *testing.T) {
	d, r := deploy(t, crowdPolicy, 2), newReceiver(t)
	r.delay = 20 * time.Millisecond
	var items []item
	for i := range 6000 {
		items = append(items, item{UserID: "user-" + strconv.Itoa(i%100), To: r.server.URL})
	}
	ids := d.accept(d.workers[1], items)
	inFlight := int64(0)
	for range 3 {
		<-time.After(400 * time.Millisecond)
		sending := int64(0)
		for sending < 20 { // they go in bursts: in between a kill would meet nothing
			sending = d.stats(d.workers[1]).Sending
		}
		inFlight += sending
		if err := d.workers[0].process.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := <-d.workers[0].exited; err == nil {
			t.Fatal("a killed worker exited as if nothing had been")
		}
		d.workers[0] = d.start()
	}
	s := d.drain(d.workers[1], 3*time.Minute)
	got := r.deliveries()
	lost, duplicates := compare(ids, got)
	broken := violations(got, crowdRules...)
	t.Logf("6,000 with a worker killed three times: %d lost, %d doubled (about %d in flight at the kills, at most 768), %d violations, %d attempts",
		lost, duplicates, inFlight, broken, s.Totals.Attempts)
	if lost+broken > 0 || duplicates > 3*256 {
		t.Error("outside the bounds: nothing lost or violated, doubled at most what was in flight")
	}
}

// Real traffic: all 65,477 moments at which somebody was addressed, as fast as they go in, under limits that let the
// busiest user drain within minutes.
func TestRealTraffic(t *testing.T) {
	d, r := deploy(t, crowdPolicy, 2), newReceiver(t)
	var items []item
	for _, m := range chatroom.All(t) {
		items = append(items, item{UserID: m.UserID, To: r.server.URL})
	}
	begin := time.Now()
	ids := d.accept(d.workers[0], items)
	accepted := time.Since(begin)
	s := d.drain(d.workers[0], 8*time.Minute)
	got := r.deliveries()
	lost, duplicates := compare(ids, got)
	broken := violations(got, crowdRules...)
	pulls, deferred := float64(s.Totals.Pulls)/float64(s.Totals.Delivered),
		float64(s.Totals.Deferrals)/float64(s.Totals.Delivered)
	t.Logf("%d of real traffic: accepted in %s, drained in %s, %d lost, %d doubled, %d violations, %.3f pulls per delivered with %.3f deferred each",
		len(ids), accepted, time.Since(begin), lost, duplicates, broken, pulls, deferred)
	if lost+duplicates+broken > 0 || pulls > 1.05 {
		t.Error("outside the bounds: nothing lost, doubled or violated, at most 1.05 pulls")
	}
}
