//go:build growth

package main

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	partitions "github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/queue"
)

// onePolicy delivers 20,000 notifications to one user, and a million wait behind them.
const onePolicy = `version: 1
categories:
  default: {limits: [{max: 20000, per: 24h}], max_defer: 90d}
`

const (
	// drained is how many of a backlog are delivered before the others are deferred.
	drained = 20_000
	// cancelled is how many are cancelled in the middle of the backlog then.
	cancelled = 1_000
)

// oneBacklog measures a growing backlog of one user: how fast it is accepted, delivered and cancelled.
func oneBacklog(t *testing.T) [][]string {
	rows := [][]string{{
		"waiting of one user", "accepted a second", "Redis CPU each",
		"of them delivered a second", "Redis CPU each", "cancelled a second", "Redis CPU each",
	}}
	for _, n := range []int{1_000, 10_000, 100_000, 1_000_000} {
		store, p := begin(t, onePolicy)
		row := []string{fmt.Sprint(n)}
		step := func(count int, do func()) {
			cpu, start := store.cpu(t.Context()), time.Now()
			do()
			took, used := time.Since(start), store.cpu(t.Context())-cpu
			row = append(row, perSecond(float64(count)/took.Seconds()), micros(used/time.Duration(count)))
		}
		step(n+drained, func() {
			toAda := func(int) notification.Notification { return of("ada", "default") }
			if err := p.accept(t.Context(), n+drained, toAda); err != nil {
				t.Fatal(err)
			}
		})
		step(drained, func() {
			if err := p.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := p.await(t.Context(), drained); err != nil {
				t.Fatal(err)
			}
		})
		awaitDeferred(t, p, n)
		step(cancelled, func() { cancelMiddle(t, store, p, n) })
		awaitDeferred(t, p, n-cancelled)
		rows = append(rows, row)
		end(t, p)
	}
	return rows
}

// cancelMiddle cancels some in the middle of ada's backlog, one after the other.
func cancelMiddle(t *testing.T, store *server, p *pacer, waiting int) {
	t.Helper()
	backlog := fmt.Sprintf("pacer:{%s}:w:default:ada", queue.PartitionName(partitions.PartitionOf("ada", 16)))
	first := int64(waiting-cancelled) / 2
	for _, id := range store.client.ZRange(t.Context(), backlog, first, first+cancelled-1).Val() {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete,
			"http://"+p.Addr()+"/v1/notifications/"+id, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close() // only the status matters
		if response.StatusCode != http.StatusOK {
			t.Fatalf("cancel %s: %s", id, response.Status)
		}
	}
}

// awaitDeferred waits until exactly n notifications are deferred.
func awaitDeferred(t *testing.T, p *pacer, n int) {
	t.Helper()
	for deadline := time.Now().Add(8 * time.Minute); deferred(t, p) != n; <-time.After(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d are deferred, not %d", deferred(t, p), n)
		}
	}
}
