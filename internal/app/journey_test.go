package app_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/store/postgres/connect"
	"github.com/pacer-notify/pacer/internal/store/postgres/rebuild"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/migrations"
	"github.com/pacer-notify/pacer/test/apitest"
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
  once: {webhook: {final: [404]}}
retry: {max_attempts: 3, min_backoff: 10ms, max_backoff: 50ms}
`

var crowdRules = []throttle.Rule{{Max: 20, Per: time.Second}, {Max: 1, Per: 10 * time.Millisecond}}

// The same journey on every set-up shows that a process puts all parts together; what each part does is tested with it.
func TestJourney(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(t *testing.T) *fleet{
		"embedded": func(t *testing.T) *fleet {
			d := newDeploymentOn(t, onRedis, unusedRedis)
			return d.run(d.embeddedSettings)
		},
		"Redis": func(t *testing.T) *fleet {
			d := newDeploymentOn(t, onRedis, redistest.URL(t))
			return d.run(d.settings, d.settings)
		},
		"Redis Cluster": func(t *testing.T) *fleet {
			d := newDeploymentOn(t, onRedis, redistest.StartCluster(t, 3, false).URL())
			return d.run(d.settings, d.settings)
		},
		"Postgres": func(t *testing.T) *fleet {
			d := newDeploymentOn(t, onPostgres, redistest.URL(t))
			return d.run(d.settings, d.settings)
		},
		"Postgres and Redis Cluster": func(t *testing.T) *fleet {
			d := newDeploymentOn(t, onPostgres, redistest.StartCluster(t, 3, false).URL())
			return d.run(d.settings, d.settings)
		},
		"Postgres behind PgBouncer": func(t *testing.T) *fleet {
			d := newDeploymentOn(t, onRedis, redistest.URL(t))
			d.databaseURL = postgrestest.PgBouncer(t, postgrestest.EmptyURL(t))
			if err := connect.Migrate(t.Context(), d.databaseURL, migrations.Up); err != nil {
				t.Fatal(err)
			}
			return d.run(d.settings, d.settings)
		},
		"one node": func(t *testing.T) *fleet {
			d := oneNode(t)
			return d.run(d.oneNodeSettings)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, r := begin(t), newReceiver(t)
			for _, travel := range []func(*fleet, *receiver){
				goesByTheLimits, isAcceptedOnce, isTriedAgain, waitsWhilePaused, goesByPreferences, reachesDevices,
				isPromised, isCancelled, followsThePolicy, holdsWhatThePolicyLost, isListedAndCounted, outlivesRedis,
			} {
				travel(d, r)
			}
		})
	}
}

// embeddedSettings are those of a process without any store outside.
func (d *fleet) embeddedSettings() *settings.Resolved {
	d.t.Helper()
	s := d.settings()
	s.Setup, s.Redis = settings.SetupEmbedded, nil
	return s
}

// run starts a process with each of these settings.
func (d *fleet) run(all ...func() *settings.Resolved) *fleet {
	d.t.Helper()
	d.writePolicy(crowdPolicy)
	for _, settings := range all {
		d.startWith(settings())
	}
	return d
}

// last is a process that takes no requests of the API in these tests, unless there is only one.
func (d *fleet) last() int { return len(d.apps) - 1 }

// goesByTheLimits: a user's notifications arrive in order and no faster than the policy says, and what must wait for
// long says why.
func goesByTheLimits(d *fleet, r *receiver) {
	d.t.Helper()
	ids := d.bulk(r.crowd("ada", "default", 40))
	got := slices.Clone(r.await(d.t, len(ids)))
	if n := violations(admittedAt(got), crowdRules...); n != 0 {
		d.t.Errorf("%d violations of the limit or the gap", n)
	}
	d.awaitStats("the results are written", func(s stats) bool { return s.Totals.Delivered == int64(len(ids)) })
	slices.SortFunc(got, func(a, b arrival) int { return int(a.AdmittedAt - b.AdmittedAt) })
	overtaken := d.overtaken()
	ids = slices.DeleteFunc(ids, func(id string) bool { return overtaken[id] })
	got = slices.DeleteFunc(got, func(a arrival) bool { return overtaken[a.ID] })
	if !slices.EqualFunc(ids, got, func(id string, a arrival) bool { return id == a.ID }) {
		d.t.Errorf("they came as %v, want %v", got, ids)
	}
	slow := d.bulk(r.crowd("ben", "slow", 2))
	d.awaitView(slow[0], "delivered", "")
	d.awaitView(slow[1], "deferred", "limit 1/1h")
	d.awaitDelivered(d.bulk(r.crowd("ben", "urgent", 1))[0])
	for _, process := range d.apps {
		d.awaitPage(process, "/metrics", "\npacer_notifications{state=\"deferred\"} 1\n")
		d.awaitPage(process, "/snapshot", `"user_id": "ben"`)
	}
}

// isAcceptedOnce: a key that comes again is a repeat.
func isAcceptedOnce(d *fleet, _ *receiver) {
	d.t.Helper()
	key := http.Header{"Idempotency-Key": {"once"}}
	body := []byte(`{"user_id":"cyd","channel":"log","title":"x"}`)
	var first, again struct{ ID string }
	d.call(http.MethodPost, "/v1/notifications", body, key, &first)
	status := d.call(http.MethodPost, "/v1/notifications", body, key, &again)
	if status != http.StatusOK || first.ID == "" || again != first {
		d.t.Errorf("the key again: %d, %q, want %q", status, again.ID, first.ID)
	}
	d.awaitDelivered(first.ID)
}

// isTriedAgain: what fails is tried again, unless the policy calls the response final.
func isTriedAgain(d *fleet, r *receiver) {
	d.t.Helper()
	r.respondTo("dan", func(a arrival, w http.ResponseWriter) {
		if a.Attempt == 1 || a.Category == "once" {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	again, final := d.bulk(r.crowd("dan", "default", 1))[0], d.bulk(r.crowd("dan", "once", 1))[0]
	d.awaitDelivered(again)
	d.awaitView(final, "failed", "permanent: 404")
	if v := d.view(again); v.Attempts != 2 {
		d.t.Errorf("it was delivered by attempt %d, want 2", v.Attempts)
	}
}

// waitsWhilePaused: what one process pauses waits in all of them, until it is resumed.
func waitsWhilePaused(d *fleet, r *receiver) {
	d.t.Helper()
	pause := ops.Action{Action: "pause", Kind: "channel", Name: "webhook", Why: "a test"}
	d.act(d.apps[d.last()], http.StatusOK, pause)
	for _, process := range d.apps {
		d.awaitPage(process, "/metrics", `pacer_paused{kind="channel",name="webhook"} 1`)
	}
	before := len(r.got())
	held, free := d.bulk(r.crowd("eve", "urgent", 1))[0], d.bulk([]item{{"user_id": "eve", "channel": "log"}})[0]
	d.awaitDelivered(free)
	if v := d.view(held); v.Status == "delivered" || len(r.got()) != before {
		d.t.Errorf("what is paused is %s", v.Status)
	}
	pause.Action = "resume"
	d.act(d.apps[0], http.StatusOK, pause)
	d.awaitDelivered(held)
	d.awaitPage(d.apps[d.last()], "/audit", "a test")
}

// goesByPreferences: a user's hours hold, and their end releases; what the user opts out of is cancelled.
func goesByPreferences(d *fleet, r *receiver) {
	d.t.Helper()
	const preferences = "/v1/users/fay/preferences"
	until := time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
	d.ask(http.MethodPut, preferences, `{"quiet_until":"`+until+`"}`)
	d.awaitKnownOf("fay", false)
	held := d.bulk(r.crowd("fay", "default", 1))[0]
	d.awaitView(held, "deferred", "quiet_hours")
	d.ask(http.MethodDelete, preferences, "")
	d.awaitKnownOf("fay", true)
	d.awaitDelivered(held)
	slow := d.bulk(r.crowd("fay", "slow", 2))
	d.awaitView(slow[1], "deferred", "limit 1/1h")
	d.ask(http.MethodPut, preferences, `{"opt_out":{"categories":["slow"]}}`)
	d.awaitView(slow[1], "cancelled", "opted_out")
}

// reachesDevices: a notification without a target goes to the user's devices, again only to that which failed.
func reachesDevices(d *fleet, r *receiver) {
	d.t.Helper()
	failing := newReceiver(d.t)
	var tries atomic.Int64
	failing.respondTo("gus", func(_ arrival, w http.ResponseWriter) {
		if tries.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	for id, to := range map[string]string{"phone": r.server.URL, "desk": failing.server.URL} {
		d.ask(http.MethodPut, "/v1/users/gus/devices/"+id, `{"channel":"webhook","to":"`+to+`"}`)
	}
	before := len(r.got())
	d.awaitDelivered(d.bulk([]item{{"user_id": "gus"}})[0])
	if n, again := len(r.got())-before, len(failing.got()); n != 1 || again != 2 {
		d.t.Errorf("the devices got it %d and %d times, want 1 and 2", n, again)
	}
}

// hal has a name with everything that a path or a key has trouble with.
const hal = "{push-1}:hal/ü 100%"

// isPromised: who asks is told when it goes, and is refused when that is too late.
func isPromised(d *fleet, r *receiver) {
	d.t.Helper()
	type promised struct {
		Decision, Type string
		DeliverAt      time.Time `json:"deliver_at"`
	}
	promise := func(more string) (p promised) {
		body := `{"user_id":"` + hal + `","category":"slow","to":"` + r.server.URL + `"` + more + `}`
		d.call(http.MethodPost, "/v1/notifications?promise=true", []byte(body), nil, &p)
		return p
	}
	if p := promise(""); p.Decision != "now" {
		d.t.Errorf("the first is promised for %+v", p)
	}
	in := time.Until(promise("").DeliverAt)
	if late := promise(`,"max_wait":"1s"`); in < 50*time.Minute || late.Type != "too-late" {
		d.t.Errorf("the second is promised in %s, a third that may not wait: %+v", in, late)
	}
	var windows struct {
		UserID string `json:"user_id"`
		Rules  []struct{ Used int }
	}
	d.call(http.MethodGet, "/v1/users/"+url.PathEscape(hal)+"/throttle?category=slow", nil, nil, &windows)
	if windows.UserID != hal || len(windows.Rules) != 1 || windows.Rules[0].Used != 1 {
		d.t.Errorf("the windows are %+v", windows)
	}
}

// isCancelled: what waits can be cancelled, once.
func isCancelled(d *fleet, r *receiver) {
	d.t.Helper()
	id := d.bulk(r.crowd(hal, "slow", 1))[0]
	for _, want := range []int{http.StatusOK, http.StatusConflict} {
		if status := d.call(http.MethodDelete, "/v1/notifications/"+id, nil, nil, nil); status != want {
			d.t.Errorf("cancel: status %d, want %d", status, want)
		}
	}
	d.awaitView(id, "cancelled", "")
}

// followsThePolicy: what waits goes when the policy that all processes have lets it, and each tells which it has.
func followsThePolicy(d *fleet, r *receiver) {
	d.t.Helper()
	slow := d.bulk(r.crowd("ivy", "slow", 3))
	d.awaitView(slow[1], "deferred", "limit 1/1h")
	d.writePolicy(strings.Replace(crowdPolicy, "{max: 1, per: 1h}", "{max: 2, per: 1h}", 1))
	for _, process := range d.apps {
		if err := process.ReloadPolicy(d.t.Context()); err != nil {
			d.t.Fatal(err)
		}
	}
	d.awaitDelivered(slow[1])
	d.awaitView(slow[2], "deferred", "limit 2/1h")
	d.awaitPage(d.apps[0], "/metrics", "\npacer_policy_differs 0\n")
	d.awaitPage(d.apps[d.last()], "/policy", "max: 2, per: 1h")
}

// holdsWhatThePolicyLost: a policy that drops a category for which something waits is refused. When it is forced, what
// waits is held, and its windows are kept until the category is back.
func holdsWhatThePolicyLost(d *fleet, r *receiver) {
	d.t.Helper()
	with := strings.Replace(crowdPolicy, "{max: 1, per: 1h}", "{max: 2, per: 1h}", 1)
	without := strings.Replace(with, "  slow:\n    limits: [{max: 2, per: 1h}]\n", "", 1)
	reload := func(text, want string) {
		d.t.Helper()
		d.writePolicy(text)
		for _, process := range d.apps {
			err := process.ReloadPolicy(d.t.Context())
			if said := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(said, want) {
				d.t.Fatalf("the reload said %v, want %q", err, want)
			}
		}
	}
	reload(with, "")
	waits := d.bulk(r.crowd("ivy", "slow", 1))[0]
	d.awaitView(waits, "deferred", "limit 2/1h")
	reload(without, "slow is gone and ")
	d.awaitPage(d.apps[0], "/metrics", "\npacer_policy_refused 1\n")
	d.awaitPage(d.apps[0], "/policy", "slow is gone")
	status, said := d.askOps(d.apps[0], http.MethodPost, "/policy/force",
		[]byte(policy.VersionOf(without+patientWebhooks)))
	if status != http.StatusOK {
		d.t.Fatalf("force a policy: %d %s", status, said)
	}
	reload(without, "")
	d.awaitView(waits, "queued", notification.ReasonRemoved)
	d.awaitPage(d.apps[0], "/notifications?category=slow&status=queued,deferred", notification.ReasonRemoved)
	reload(with, "")
	d.awaitView(waits, "deferred", "limit 2/1h") // the window was kept
}

// isListedAndCounted: lists, counts, metrics and history agree.
func isListedAndCounted(d *fleet, _ *receiver) {
	d.t.Helper()
	s := d.awaitStats("nothing moves", func(s stats) bool { return s.Queued+s.Sending+s.Retrying == 0 })
	var page struct {
		Items []struct{ ID string }
		Note  string
	}
	d.call(http.MethodGet, "/v1/notifications?limit=100&status=delivered", nil, nil, &page)
	if len(page.Items) != int(s.Totals.Delivered) || s.Partial || (page.Note == "") != (d.databaseURL != "") {
		d.t.Errorf("%d are listed as delivered, want %d; the note is %q", len(page.Items), s.Totals.Delivered, page.Note)
	}
	var history struct {
		Hours []struct{ Accepted, Delivered int64 }
	}
	if err := json.Unmarshal([]byte(d.opsPage(d.apps[0], "/history?since=2h")), &history); err != nil {
		d.t.Fatal(err)
	}
	var accepted, delivered int64
	for _, h := range history.Hours {
		accepted, delivered = accepted+h.Accepted, delivered+h.Delivered
	}
	if accepted != s.Totals.Accepted || delivered != s.Totals.Delivered {
		d.t.Errorf("the history has %d accepted and %d delivered, the counts are %+v", accepted, delivered, s.Totals)
	}
	for _, line := range []string{
		`pacer_deliveries_total{channel="webhook",outcome="credentials_refused"} 0`,
		`pacer_accepted_total{category="urgent"} 2`,
	} {
		d.awaitPage(d.apps[0], "/metrics", "\n"+line+"\n")
	}
}

// outlivesRedis: with Postgres, Redis can be lost. What waited waits again for the same rule, and nothing comes twice.
func outlivesRedis(d *fleet, r *receiver) {
	d.t.Helper()
	s := d.settings()
	if d.databaseURL == "" || s.Redis.Kind == settings.RedisCluster || d.redisURL == unusedRedis {
		return
	}
	before := d.stats()
	d.flushRedis()
	d.awaitStats("the same are deferred", func(s stats) bool { return s.Deferred == before.Deferred && !s.Partial })
	log := slog.New(slog.DiscardHandler)
	got := len(r.got())
	if done, err := deployment.Rebuild(d.t.Context(), s, log); err != nil || int64(done.Waiting) != before.Deferred {
		d.t.Errorf("rebuilt %+v, %v; want %d waiting", done, err, before.Deferred)
	}
	if err := deployment.Verify(d.t.Context(), s, log, func(found rebuild.Difference) error {
		d.t.Errorf("Redis differs from Postgres: %+v", found)
		return nil
	}); err != nil {
		d.t.Error(err)
	}
	d.awaitDelivered(d.bulk(r.crowd("jon", "default", 1))[0])
	if n := len(r.got()) - got; n != 1 {
		d.t.Errorf("%d came after the rebuild, want 1", n)
	}
}

// ask makes a request that must succeed.
func (d *fleet) ask(method, path, body string) {
	d.t.Helper()
	status := d.callBy(apitest.Client, method, path, []byte(body), nil, nil)
	if status >= http.StatusMultipleChoices {
		d.t.Fatalf("%s %s %s: status %d", method, path, body, status)
	}
}
