package app_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/internal/refusal"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

const crowdPolicy = `
version: 1
categories:
  default:
    limits: [{max: 20, per: 1s}]
    min_gap: 10ms
  urgent: {bypass: true}
  slow:
    limits: [{max: 1, per: 1h}]
  brief:
    limits: [{max: 2, per: 1h}]
    max_defer: 10m
retry: {max_attempts: 3, min_backoff: 10ms, max_backoff: 50ms}
`

var crowdRules = []throttle.Rule{{Max: 20, Per: time.Second}, {Max: 1, Per: 10 * time.Millisecond}}

// TestDeliveries runs every scenario on every set-up that several processes can share.
func TestDeliveries(t *testing.T) {
	t.Parallel()
	scenarios := map[string]func(*testing.T, setup){
		"CrowdOfOneUserDrainsInOrderAtTheLimit":                crowdOfOneUserDrainsInOrderAtTheLimit,
		"CancelledOnesLeaveNoHole":                             cancelledOnesLeaveNoHole,
		"BypassGoesAtOnceAndCounts":                            bypassGoesAtOnceAndCounts,
		"MaxDeferEndsWhatWouldWaitLonger":                      maxDeferEndsWhatWouldWaitLonger,
		"FailedDeliveriesAreTriedAgainEachWithItsOwnAdmission": failedDeliveriesAreTriedAgainEachWithItsOwnAdmission,
		"OneKeyIsOneNotification":                              oneKeyIsOneNotification,
		"StopWaitsForWhatIsInFlight":                           stopWaitsForWhatIsInFlight,
		"PolicyReloadReachesWhatWaits":                         policyReloadReachesWhatWaits,
		"PausedThingsWait":                                     pausedThingsWait,
		"NoPartitionStaysPausedUnseen":                         noPartitionStaysPausedUnseen,
		"OperatorsCancelAndRetry":                              operatorsCancelAndRetry,
		"SnapshotTellsWhoWaits":                                snapshotTellsWhoWaits,
		"PolicyReloadTakesEffect":                              policyReloadTakesEffect,
	}
	for _, on := range []setup{onRedis, onPostgres} {
		for name, scenario := range scenarios {
			t.Run(string(on)+"/"+name, func(t *testing.T) {
				t.Parallel()
				scenario(t, on)
			})
		}
	}
}

func crowdOfOneUserDrainsInOrderAtTheLimit(t *testing.T, on setup) {
	t.Helper()
	d, r := newDeployment(t, on, crowdPolicy, 2), newReceiver(t)
	ids := d.bulk(r.crowd("ada", "default", 60))
	got := r.await(t, len(ids))
	s := d.awaitStats("all delivered", func(s stats) bool { return s.Totals.Delivered == 60 && s.Sending == 0 })

	if n := violations(admittedAt(got), crowdRules...); n != 0 {
		t.Errorf("%d violations of the limit or the gap", n)
	}
	slices.SortFunc(got, func(a, b arrival) int { return int(a.AdmittedAt - b.AdmittedAt) })
	overtaken := d.overtaken()
	ids = slices.DeleteFunc(ids, func(id string) bool { return overtaken[id] })
	got = slices.DeleteFunc(got, func(a arrival) bool { return overtaken[a.ID] })
	for i, a := range got {
		if a.ID != ids[i] {
			t.Fatalf("admission %d is %s, want %s: out of order", i, a.ID, ids[i])
		}
	}
	if perDelivery := float64(s.Totals.Pulls) / 60; perDelivery > 2.05 {
		t.Errorf("%.3f pulls per delivery, want at most 2.05", perDelivery)
	}
	if s.Deferred != 0 || s.Queued != 0 || s.Sending != 0 || s.UsersDeferred != 0 || s.Totals.Accepted != 60 ||
		s.Totals.Attempts != 60 {
		t.Errorf("counts after the drain: %+v", s)
	}
}

func cancelledOnesLeaveNoHole(t *testing.T, on setup) {
	t.Helper()
	d, r := newDeployment(t, on, crowdPolicy, 2), newReceiver(t)
	d.bulk(r.crowd("ada", "slow", 1))
	r.await(t, 1)
	ids := d.bulk(r.crowd("ada", "slow", 3))
	d.awaitStats("three deferred", func(s stats) bool { return s.Deferred == 3 })
	if status := d.call(http.MethodDelete, "/v1/notifications/"+ids[0], nil, nil, nil); status != http.StatusOK {
		t.Fatalf("cancel: status %d", status)
	}
	if v := d.view(ids[0]); v.Status != "cancelled" {
		t.Errorf("the cancelled one is %q", v.Status)
	}
	if status := d.call(http.MethodDelete, "/v1/notifications/"+ids[0], nil, nil, nil); status != http.StatusConflict {
		t.Errorf("cancel again: status %d, want 409", status)
	}
	if status := d.call(http.MethodDelete, "/v1/users/ada/throttle?category=slow", nil, nil, nil); status != http.StatusNoContent {
		t.Fatalf("clear: status %d", status)
	}
	if got := r.await(t, 2); got[1].ID != ids[1] {
		t.Errorf("after the windows were cleared %s went out, want %s", got[1].ID, ids[1])
	}
	if v := d.view(ids[2]); v.Status != "deferred" || v.Reason != "limit 1/1h" || v.Deferrals != 1 {
		t.Errorf("the last one is %+v", v)
	}
}

func bypassGoesAtOnceAndCounts(t *testing.T, on setup) {
	t.Helper()
	d, r := newDeployment(t, on, crowdPolicy+"user_cap: {limits: [{max: 2, per: 1h}]}\n", 1), newReceiver(t)
	d.bulk(r.crowd("ada", "urgent", 3))
	r.await(t, 3)
	d.bulk(r.crowd("ada", "default", 1))
	d.awaitStats("deferred by the cap", func(s stats) bool { return s.Deferred == 1 })
	if got := r.got(); len(got) != 3 {
		t.Errorf("the receiver got %d requests, want 3", len(got))
	}
}

func maxDeferEndsWhatWouldWaitLonger(t *testing.T, on setup) {
	t.Helper()
	d, r := newDeployment(t, on, crowdPolicy, 1), newReceiver(t)
	ids := d.bulk(r.crowd("ada", "brief", 4))
	s := d.awaitStats("two delivered, two expired", func(s stats) bool {
		return s.Totals.Delivered == 2 &&
			s.Totals.Expired == 2
	})
	if s.Deferred != 0 {
		t.Errorf("%d still deferred", s.Deferred)
	}
	for i, want := range []string{"delivered", "delivered", "expired", "expired"} {
		if v := d.view(ids[i]); v.Status != want || want == "expired" && v.Reason != "max_defer" {
			t.Errorf("notification %d is %s (%s), want %s", i, v.Status, v.Reason, want)
		}
	}
}

func failedDeliveriesAreTriedAgainEachWithItsOwnAdmission(t *testing.T, on setup) {
	t.Helper()
	d, r := newDeployment(t, on, crowdPolicy, 2), newReceiver(t)
	r.respond = func(a arrival, w http.ResponseWriter) {
		switch {
		case a.User == "never":
			w.WriteHeader(http.StatusServiceUnavailable)
		case a.User == "gone":
			w.WriteHeader(http.StatusGone)
		case a.Attempt < 3:
			w.WriteHeader(http.StatusBadGateway)
		}
	}
	third := d.bulk(r.crowd("third", "default", 1))[0]
	never := d.bulk(r.crowd("never", "default", 1))[0]
	gone := d.bulk(r.crowd("gone", "default", 1))[0]
	d.awaitStats("all ended", func(s stats) bool { return s.Totals.Delivered == 1 && s.Totals.Failed == 2 })

	for id, want := range map[string]view{
		third: {Status: "delivered", Attempts: 3},
		never: {Status: "failed", Attempts: 3, Reason: "max_attempts, last transient: 503"},
		gone:  {Status: "failed", Attempts: 1, Reason: "target_gone: 410"},
	} {
		v := d.view(id)
		if v.Status != want.Status || v.Attempts != want.Attempts || want.Reason != "" && v.Reason != want.Reason {
			t.Errorf("notification of %s: %+v, want %+v", id, v, want)
		}
	}
	users := map[string][]throttle.Micros{}
	for _, a := range r.got() {
		users[a.User] = append(users[a.User], a.AdmittedAt)
	}
	for user, admitted := range users {
		if n := violations(admitted, crowdRules...); n != 0 {
			t.Errorf("%s: %d violations over all attempts", user, n)
		}
	}
}

func oneKeyIsOneNotification(t *testing.T, on setup) {
	t.Helper()
	d, r := newDeployment(t, on, crowdPolicy, 2), newReceiver(t)
	body := []byte(`{"user_id":"ada","to":"` + r.server.URL + `"}`)
	header := http.Header{"Idempotency-Key": {"only-once"}}
	var mu sync.Mutex
	statuses, ids := map[int]int{}, map[string]bool{}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			var reply struct{ ID string }
			status := d.call(http.MethodPost, "/v1/notifications", body, header, &reply)
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
			if reply.ID != "" {
				ids[reply.ID] = true
			}
		})
	}
	all.Wait()
	if len(ids) != 1 || statuses[http.StatusAccepted] != 1 || statuses[202]+statuses[200]+statuses[409] != 50 {
		t.Errorf("statuses %v, ids %v", statuses, ids)
	}
	if status := d.call(http.MethodPost, "/v1/notifications", []byte(`{"user_id":"eve","to":"`+r.server.URL+`"}`), header, nil); status != http.StatusUnprocessableEntity {
		t.Errorf("the key with another body: status %d, want 422", status)
	}
	d.awaitStats("delivered once", func(s stats) bool { return s.Totals.Accepted == 1 && s.Totals.Delivered == 1 })
}

func stopWaitsForWhatIsInFlight(t *testing.T, on setup) {
	t.Helper()
	d, r := newDeployment(t, on, crowdPolicy, 1), newReceiver(t)
	entered, release := make(chan struct{}), make(chan struct{})
	r.respond = func(_ arrival, w http.ResponseWriter) {
		close(entered)
		<-release
		w.WriteHeader(http.StatusOK)
	}
	id := d.bulk(r.crowd("ada", "default", 1))[0]
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- d.apps[0].Stop(t.Context()) }()
	close(release)
	if err := <-stopped; err != nil {
		t.Fatalf("stop: %v", err)
	}
	d.apps = nil
	d.start()
	if v := d.view(id); v.Status != "delivered" || v.Attempts != 1 {
		t.Errorf("what was in flight at the stop is %+v, want delivered at the first attempt", v)
	}
}

func policyReloadTakesEffect(t *testing.T, on setup) {
	t.Helper()
	d, r := newDeployment(t, on, "version: 1\ncategories:\n  default: {limits: [{max: 1, per: 1h}]}\n",
		1), newReceiver(t)
	d.bulk(r.crowd("ada", "default", 1))
	r.await(t, 1)
	d.writePolicy("version: 1\ncategories:\n  default: {limits: [{max: 2, per: 1h}]}\n")
	if err := d.apps[0].ReloadPolicy(); err != nil {
		t.Fatalf("reload: %v", err)
	}
	d.bulk(r.crowd("ada", "default", 1))
	r.await(t, 2)
}

// What waited for an hour goes out when the limit is raised, not an hour later.
func policyReloadReachesWhatWaits(t *testing.T, on setup) {
	t.Helper()
	d, r := newDeployment(t, on, "version: 1\ncategories:\n  default: {limits: [{max: 1, per: 1h}]}\n",
		2), newReceiver(t)
	d.bulk(r.crowd("ada", "default", 4))
	d.awaitStats("three deferred", func(s stats) bool { return s.Deferred == 3 && s.Totals.Delivered == 1 })
	d.writePolicy("version: 1\ncategories:\n  default: {limits: [{max: 3, per: 1h}]}\n")
	for _, process := range d.apps {
		if err := process.ReloadPolicy(); err != nil {
			t.Fatalf("reload: %v", err)
		}
	}
	r.await(t, 3)
	d.awaitStats("one still deferred", func(s stats) bool { return s.Deferred == 1 && s.Totals.Delivered == 3 })
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	earlier := redistest.Start(t)
	waiting := redis.Z{Member: "chat:ada", Score: 1}
	if err := earlier.Client(t).ZAdd(t.Context(), "pacer:{push-1}:m", waiting).Err(); err != nil {
		t.Fatal(err)
	}
	fresh := newDeployment(t, onRedis, crowdPolicy, 0)
	fresh.start()
	for name, spoil := range map[string]func(*settings.Resolved){
		"Evicting":        func(s *settings.Resolved) { s.Redis, _ = settings.ParseRedisURL(server.URL()) },
		"OtherPartitions": func(s *settings.Resolved) { s.Partitions = 5 },
		"EarlierVersion": func(s *settings.Resolved) {
			s.Redis, _ = settings.ParseRedisURL(earlier.URL())
		},
		"NoPolicy":  func(s *settings.Resolved) { s.Policy = "/nowhere/policy.yaml" },
		"TakenPort": func(s *settings.Resolved) { s.Listen = fresh.apps[0].Addr() },
		"NoSchema": func(s *settings.Resolved) {
			s.Setup, s.DatabaseURL = settings.SetupDurable, postgrestest.EmptyURL(t)
		},
		"BadDatabaseURL": func(s *settings.Resolved) {
			s.Setup, s.DatabaseURL = settings.SetupDurable, "postgres://pacer@127.0.0.1:port/x"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fresh.settings()
			spoil(s)
			process, err := app.New(context.Background(), s, slog.New(slog.DiscardHandler))
			var refusal *refusal.Error
			if !errors.As(err, &refusal) || process != nil {
				t.Fatalf("got %v, want a refusal", err)
			}
		})
	}
}
