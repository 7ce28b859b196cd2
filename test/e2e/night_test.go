//go:build accept

package e2e_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// nightUntil is a policy whose quiet hours began ten minutes before a full minute ends them, in UTC.
func nightUntil(end time.Time, spread time.Duration, categories string) string {
	clock := func(at time.Time) string { return at.UTC().Format("15:04") }
	return fmt.Sprintf(`version: 1
windows: {night: {closed: [{from: %q, to: %q}]}}
quiet_hours: {window: night, spread: %s}
categories:
%s`, clock(end.Add(-10*time.Minute)), clock(end), spread, categories)
}

// nextMinute is the first full minute that is at least so far ahead.
func nextMinute(ahead time.Duration) time.Time {
	return time.Now().Add(ahead + time.Minute - time.Microsecond).Truncate(time.Minute)
}

// The quiet hours of 20,000 users end: within the spread they go one after the other, in no second more than half as
// many again as if they were dealt out, each user's in order.
func TestNightEndsForManyUsers(t *testing.T) {
	const users, spread = 20_000, 60 * time.Second
	end := nextMinute(time.Minute)
	d := deploy(t, nightUntil(end, spread, "  default: {limits: [{max: 1, per: 2s}]}\n"), 2)
	r := newReceiver(t)
	hosts := r.onManyHosts(t)
	var items []item
	for range 2 {
		for i := range users {
			items = append(items, item{UserID: fmt.Sprintf("user-%d", i), To: hosts[i%len(hosts)]})
		}
	}
	ids := d.accept(d.workers[0], items)
	if accepted := time.Now(); accepted.After(end.Add(-5 * time.Second)) {
		t.Fatalf("accepting took until %s, the night ends at %s: too slow a machine", accepted, end)
	}
	d.drain(d.workers[0], 5*time.Minute)
	got := r.deliveries()
	lost, duplicates := compare(ids, got)
	admitted := map[string]throttle.Micros{}
	for _, g := range got {
		admitted[g.ID] = g.AdmittedAt
	}
	var load [int(spread / time.Second)]int
	early, disordered, beyond, late := 0, 0, 0, make([]time.Duration, users)
	for i := range users {
		at := admitted[ids[i]]
		plan := throttle.Plan{Closed: throttle.Closed{{From: 0, Until: throttle.MicrosOf(end)}}, Spread: spread}
		late[i] = at.Sub(plan.For(items[i].UserID).Closed[0].Until)
		if late[i] < 0 {
			early++
		}
		if admitted[ids[users+i]] <= at {
			disordered++
		}
		if second := int(at.Sub(throttle.MicrosOf(end)) / time.Second); second >= 0 && second < len(load) {
			load[second]++
		} else {
			beyond++
		}
	}
	slices.Sort(late)
	most := float64(slices.Max(load[:])*len(load)) / users
	t.Logf("%d users released within %s: %.2f times the average in the fullest second, each late by %s at p50, %s at "+
		"p99, %s at most; %d before their moment, %d after the spread, %d out of order, %d lost, %d doubled", users, spread,
		most, late[users/2], late[users*99/100], late[users-1], early, beyond, disordered, lost, duplicates)
	if most > 1.5 || early+disordered+lost+duplicates > 0 {
		t.Error("outside the bounds: at most 1.5 times the average, none early, lost, doubled or out of order")
	}
}
