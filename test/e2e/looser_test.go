//go:build accept

package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/processtest"
)

// looserRule is the one that takes the place of one in ten minutes, under which the last could go within max_defer.
var looserRule = throttle.Rule{Max: 10, Per: 12 * time.Second}

// looserPolicy lets a user have so many in a time.
func looserPolicy(rule throttle.Rule) string {
	return fmt.Sprintf("version: 1\ncategories:\n  default: {limits: [{max: %d, per: %s}]}\n", rule.Max, rule.Per)
}

// looserOptimum is how long it takes at best, from the change on, until the last of those goes who wait: each user had
// one before.
func looserOptimum(changed throttle.Micros, before []throttle.Micros, waiting int) (best time.Duration) {
	for _, first := range before {
		log, at := throttle.Log{Rules: []throttle.Rule{looserRule}, Admitted: []throttle.Micros{first}}, changed
		for range waiting {
			at, _ = throttle.Next(at, nil, log)
			log.Admitted = append(log.Admitted, at)
		}
		best = max(best, at.Sub(changed))
	}
	return best
}

// A looser policy moves up 10,000 that wait for 100 users: they drain as fast as it allows from the moment at which the
// file was written, and the queue is asked at most once more for each backlog.
func TestLooserPolicyDrains(t *testing.T) {
	const users, each, allowed = 100, 100, 1.05
	d := deploy(t, looserPolicy(throttle.Rule{Max: 1, Per: 10 * time.Minute}), 2)
	r := newReceiver(t)
	hosts := r.onManyHosts(t)
	var items []item
	for i := range users * each {
		items = append(items, item{UserID: fmt.Sprint("user-", i%users), To: hosts[i%len(hosts)]})
	}
	ids := d.accept(d.workers[0], items)
	for begin := time.Now(); ; <-time.After(20 * time.Millisecond) {
		s := d.stats(d.workers[0])
		if s.Totals.Delivered == users && s.Deferred == users*(each-1) {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("after a minute not all that remain wait: %+v", s)
		}
	}
	var before []throttle.Micros
	for _, g := range r.deliveries() {
		before = append(before, g.AdmittedAt)
	}
	pulls := d.stats(d.workers[0]).Totals.Pulls

	if err := processtest.ReplaceFile(d.policy, looserPolicy(looserRule)); err != nil {
		t.Fatal(err)
	}
	changed := throttle.MicrosOf(time.Now())
	s := d.drain(d.workers[0], 4*time.Minute)
	got := r.deliveries()
	last, best := changed, looserOptimum(changed, before, each-1)
	for _, g := range got {
		last = max(last, g.AdmittedAt)
	}
	lost, duplicates := compare(ids, got)
	broken := violations(got, looserRule)
	took, woken := last.Sub(changed), s.Totals.Pulls-pulls
	t.Logf("a looser policy, %d waiting for %d users, 2 processes: drained in %s, %.3f of the optimum (%s); %d wake-ups "+
		"for %d delivered, %d lost, %d doubled, %d violations", users*(each-1), users, took, took.Seconds()/best.Seconds(),
		best, woken, len(got)-len(before), lost, duplicates, broken)
	if took.Seconds() > allowed*best.Seconds() || woken > int64(users+len(got)-len(before)) ||
		lost+duplicates+broken > 0 || len(before) != users {
		t.Errorf("outside the bounds: %.2f of the optimum, one wake-up for each backlog and each delivered, nothing lost, "+
			"doubled or violated, %d delivered before", allowed, users)
	}
}
