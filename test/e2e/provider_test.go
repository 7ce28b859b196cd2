//go:build accept

package e2e_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/providertest"
)

// probes is how many calls came later than d after the first, and for how long.
func probes(calls []providertest.Call, d time.Duration) (n int, span time.Duration) {
	for _, c := range calls {
		if since := c.At.Sub(calls[0].At); since > d {
			n++
			span = max(span, since-d)
		}
	}
	return n, span
}

// One dead provider neither stalls the others nor is hammered: beside it they keep at least 0.8 of their rate, and it
// is tried at most once a second by all processes together, after the calls that found it dead have ended.
func TestDeadProviderBesideAHealthyOne(t *testing.T) {
	const n = 12_000
	d, r := deploy(t, "version: 1\ncategories: {default: {limits: []}}\nretry: {max_attempts: 100, min_backoff: 1s, max_backoff: 5s}\n", 2), newReceiver(t)
	dead := providertest.StartHTTP(t, providertest.HTTPConfig{Plain: true},
		providertest.Rule{Reply: providertest.Reply{End: providertest.Hangs}})
	users := func(prefix, to string, n int) []item {
		items := make([]item, n)
		for i := range items {
			items[i] = item{UserID: prefix + strconv.Itoa(i), To: to}
		}
		return items
	}
	round := func(prefix string) time.Duration {
		before := d.stats(d.workers[0]).Totals.Delivered
		begin := time.Now()
		d.accept(d.workers[0], users(prefix, r.server.URL, n))
		for d.stats(d.workers[0]).Totals.Delivered < before+n {
			if time.Since(begin) > 5*time.Minute {
				t.Fatalf("not delivered: %+v", d.stats(d.workers[0]))
			}
			<-time.After(10 * time.Millisecond)
		}
		return time.Since(begin)
	}
	round("warm-up-")
	var alone, beside time.Duration
	for i := range 5 {
		alone += round("alone-" + strconv.Itoa(i) + "-")
	}
	d.accept(d.workers[0], users("dead-", dead.URL, 1000))
	dead.Await(t, providertest.Called, 20) // it hangs, and nobody knows yet that it is dead
	for i := range 5 {
		beside += round("beside-" + strconv.Itoa(i) + "-")
	}
	rate := float64(alone) / float64(beside)
	<-time.After(25 * time.Second)
	calls := dead.Calls(providertest.Called)
	tried, span := probes(calls, 12*time.Second)
	t.Logf("%d notifications took %s alone, %s beside a dead provider: %.2f of the rate; the dead one was called %d times, %d in the %s after it was found dead",
		5*n, alone.Round(time.Millisecond), beside.Round(time.Millisecond), rate, len(calls), tried,
		span.Round(time.Second))
	if rate < 0.8 || float64(tried) > span.Seconds()+2 {
		t.Error("outside the bounds: 0.8 of the rate, one call a second")
	}
}
