//go:build accept

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/apitest"
)

// watch keeps a dashboard open until it is called off.
func watch(t *testing.T, w *worker) (done func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.ops+"/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := apitest.Once.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(io.Discard, response.Body) }) // it ends with the context
	return func() {
		cancel()
		reading.Wait()
		_ = response.Body.Close()
	}
}

// page gets the dashboard's figures and reports how long that took.
func page(t *testing.T, url string, into any) time.Duration {
	t.Helper()
	begin := time.Now()
	response, err := apitest.Once.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, response.Status, err)
	}
	return time.Since(begin)
}

// With 100,000 deferred over 20,000 users the dashboard's figures take at most 100 ms, and an open dashboard costs the
// dispatch at most 5 %.
func TestDashboardOverALargeBacklog(t *testing.T) {
	const users, each, n, rounds = 20_000, 5, 8000, 6
	d, r := deploy(t, `version: 1
categories:
  default: {limits: []}
  slow: {limits: [{max: 1, per: 1h}], max_defer: 240h}
`, 2), newReceiver(t)
	w := d.workers[0]
	var backlog []item
	for i := range users * (each + 1) {
		backlog = append(backlog, item{UserID: "waiting-" + strconv.Itoa(i%users), Category: "slow", To: r.server.URL})
	}
	d.accept(w, backlog)
	type figures struct {
		Deferred int
		Crowds   []struct{ Deferred int }
	}
	for begin := time.Now(); ; <-time.After(time.Second) {
		var s figures
		if page(t, "http://"+w.ops+"/snapshot", &s); s.Deferred == users*each {
			break
		}
		if time.Since(begin) > 5*time.Minute {
			t.Fatalf("not deferred: %+v", s)
		}
	}

	var took, found []time.Duration
	for range 30 {
		var s figures
		took = append(took, page(t, "http://"+w.ops+"/snapshot", &s))
		if s.Deferred != users*each || len(s.Crowds) == 0 || s.Crowds[0].Deferred != each {
			t.Fatalf("the page says %+v", s)
		}
		var user map[string]any
		found = append(found, page(t, "http://"+w.ops+"/lookup/waiting-17", &user))
		<-time.After(1050 * time.Millisecond) // or it is the same look again
	}

	delivered := d.stats(w).Totals.Delivered
	round := func(name string) time.Duration {
		items := make([]item, n)
		for i := range items {
			items[i] = item{UserID: name + strconv.Itoa(i), To: r.server.URL}
		}
		begin := time.Now()
		d.accept(w, items)
		for delivered += n; d.stats(w).Totals.Delivered < delivered; {
			if time.Since(begin) > 5*time.Minute {
				t.Fatalf("not delivered: %+v", d.stats(w))
			}
			<-time.After(5 * time.Millisecond)
		}
		return time.Since(begin)
	}
	round("warm-up-")
	var closed, open time.Duration
	for i := range rounds {
		closed += round(fmt.Sprintf("closed-%d-", i))
		done := watch(t, w)
		open += round(fmt.Sprintf("open-%d-", i))
		done()
	}
	slowest, slowestFound := slices.Max(took), slices.Max(found)
	t.Logf("%d deferred of %d users: the figures took %s at most (median %s), a user's page %s; %d deliveries took %s with the dashboard closed, %s with it open: %.3f of the speed",
		users*each, users, slowest.Round(time.Millisecond), median(took).Round(time.Millisecond),
		slowestFound.Round(time.Millisecond),
		rounds*n, closed.Round(time.Millisecond), open.Round(time.Millisecond), float64(closed)/float64(open))
	if slowest > 100*time.Millisecond || slowestFound > 100*time.Millisecond || float64(closed)/float64(open) < 0.95 {
		t.Error("outside the bounds: 100 ms, 0.95 of the speed")
	}
}

// median of some values.
func median[T time.Duration | float64](all []T) T {
	return slices.Sorted(slices.Values(all))[len(all)/2]
}
