//go:build accept

package e2e_test

import (
	"fmt"
	"slices"
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

// crowdOf is one notification for each of n users.
func crowdOf(prefix, to string, n int) []item {
	items := make([]item, n)
	for i := range items {
		items[i] = item{UserID: prefix + strconv.Itoa(i), To: to}
	}
	return items
}

// round is how long n notifications take.
func (d *deployment) round(prefix, to string, n int) time.Duration {
	d.t.Helper()
	before, begin := d.stats(d.workers[0]).Totals.Delivered, time.Now()
	d.accept(d.workers[0], crowdOf(prefix, to, n))
	for d.stats(d.workers[0]).Totals.Delivered < before+int64(n) {
		if time.Since(begin) > 5*time.Minute {
			d.t.Fatalf("not delivered: %+v", d.stats(d.workers[0]))
		}
		<-time.After(10 * time.Millisecond)
	}
	return time.Since(begin)
}

// One dead provider neither stalls the others nor is hammered: beside it they keep at least 0.8 of their rate, and it
// is tried at most once a second by all processes together, after the calls that found it dead have ended. Two
// deployments are measured by turns, one with it and one without, and the median of the pairs counts.
func TestDeadProviderBesideAHealthyOne(t *testing.T) {
	const n, pairs = 5000, 7
	dead, r := providertest.StartHTTP(t, providertest.HTTPConfig{Plain: true},
		providertest.Rule{Reply: providertest.Reply{End: providertest.Hangs}}), newReceiver(t)
	var both [2]*deployment // without it, and with it
	for i := range both {
		both[i] = deploy(t, "version: 1\ncategories: {default: {limits: []}}\n"+
			"retry: {max_attempts: 100, min_backoff: 1s, max_backoff: 5s}\n", 2)
		both[i].round("warm-up-", r.server.URL, 2*n)
	}
	both[1].accept(both[1].workers[0], crowdOf("dead-", dead.URL, 1000))
	dead.Await(t, providertest.Called, 20) // it hangs, and nobody knows yet that it is dead
	var rates []float64
	for pair := range pairs {
		var took [2]time.Duration
		for turn := range both {
			i := (pair + turn) % 2
			took[i] = both[i].round(fmt.Sprintf("pair%d-", pair), r.server.URL, n)
		}
		rates = append(rates, float64(took[0])/float64(took[1]))
	}
	rate := median(rates)
	<-time.After(25 * time.Second)
	calls := dead.Calls(providertest.Called)
	tried, span := probes(calls, 12*time.Second)
	t.Logf("beside a dead provider %d notifications keep %.2f of their rate (median of %d pairs; %.2f to %.2f); the dead "+
		"one was called %d times, %d in the %s after it was found dead", n, rate, pairs, slices.Min(rates),
		slices.Max(rates), len(calls), tried, span.Round(time.Second))
	if rate < 0.8 || float64(tried) > span.Seconds()+2 {
		t.Error("outside the bounds: 0.8 of the rate, one call a second")
	}
}
