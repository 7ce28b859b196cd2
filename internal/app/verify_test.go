package app_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/deployment"
	storepostgres "github.com/pacer-notify/pacer/internal/store/postgres"
)

// verifyRuns is how often a busy deployment is compared; the acceptance scenario in test/e2e does it a hundred times.
const verifyRuns = 4

// A healthy deployment that accepts, delivers, retries, returns and cancels shows no difference, however busy it is.
func TestVerifyOfABusyDeploymentFindsNothing(t *testing.T) {
	t.Parallel()
	d, r := newDeployment(t, onPostgres, busyPolicy, 2), newReceiver(t)
	r.respond = func(a arrival, w http.ResponseWriter) {
		switch {
		case a.Attempt == 1 && a.ID[len(a.ID)-1] < '4':
			w.WriteHeader(http.StatusServiceUnavailable)
		case a.ID[len(a.ID)-1] == '4':
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}
	permits := make(chan struct{}, 10) // so many bulk requests beside each run, or the load outgrows what is looked at
	var load sync.WaitGroup
	for range 2 {
		load.Go(func() {
			n := 0
			for range permits {
				n++
				var items []item
				for i := range 50 {
					user, category := fmt.Sprintf("user-%d-%d", n%40, i%10), []string{"default", "free"}[i%2]
					items = append(items, r.crowd(user, category, 1)...)
				}
				for i, id := range d.bulk(items) {
					if i%10 == 0 {
						d.call(http.MethodDelete, "/v1/notifications/"+id, nil, nil, nil)
					}
				}
			}
		})
	}
	defer load.Wait()
	defer close(permits)
	for run := range verifyRuns {
		for len(permits) < cap(permits) {
			permits <- struct{}{}
		}
		r.await(t, 100*(run+1))
		verify := func() error {
			return deployment.Verify(t.Context(), d.settings(), slog.New(slog.DiscardHandler),
				func(found storepostgres.Difference) error {
					t.Errorf("run %d: %+v", run, found)
					return nil
				})
		}
		err := verify()
		for begun := time.Now(); err != nil && strings.Contains(err.Error(), "can't be reached") &&
			time.Since(begun) < patience; {
			err = verify() // as one would on a machine that is too slow to connect within ten seconds
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d runs beside %d deliveries", verifyRuns, len(r.got()))
}

// busyPolicy blocks some of what comes for a moment, and some for as long as a test runs.
const busyPolicy = `version: 1
categories:
  default: {limits: [{max: 5, per: 2s}, {max: 20, per: 1m}]}
  free: {}
user_cap: {limits: [{max: 40, per: 10s}]}
retry: {max_attempts: 3, min_backoff: 50ms, max_backoff: 200ms}
`

// What an operator has cleared stays cleared when the partitions are rebuilt.
func TestAClearOutlivesARebuild(t *testing.T) {
	t.Parallel()
	d, r := newDeployment(t, onPostgres, crowdPolicy, 1), newReceiver(t)
	d.bulk(r.crowd("ada", "slow", 1))
	r.await(t, 1)
	if status := d.call(http.MethodDelete, "/v1/users/ada/throttle?category=slow", nil, nil, nil); status != http.StatusNoContent {
		t.Fatalf("clear: status %d", status)
	}
	log := slog.New(slog.DiscardHandler)
	if err := deployment.Verify(t.Context(), d.settings(), log, func(found storepostgres.Difference) error {
		t.Errorf("%+v", found)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := deployment.Rebuild(t.Context(), d.settings(), log); err != nil {
		t.Fatal(err)
	}
	d.bulk(r.crowd("ada", "slow", 1))
	r.await(t, 2)
}
