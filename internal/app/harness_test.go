package app_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/store/postgres/relay"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/apitest"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/processtest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// patience bounds every wait of these tests; it is only reached when something is broken.
const patience = 5 * time.Minute

// arrival is one request that the receiver got.
type arrival struct {
	ID, User, Category string
	Attempt            int
	AdmittedAt         throttle.Micros
}

// receiver is a webhook target that keeps a ledger.
type receiver struct {
	server *httptest.Server

	mu       sync.Mutex
	arrivals []arrival
	changed  chan struct{}
	respond  func(arrival, http.ResponseWriter)
	users    map[string]func(arrival, http.ResponseWriter)
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{
		changed: make(chan struct{}, 1),
		respond: func(_ arrival, w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) },
	}
	r.server = httptest.NewServer(http.HandlerFunc(r.receive))
	t.Cleanup(r.server.Close)
	return r
}

func (r *receiver) receive(w http.ResponseWriter, request *http.Request) {
	var body struct {
		ID       string `json:"id"`
		UserID   string `json:"user_id"`
		Category string `json:"category"`
	}
	if err := json.NewDecoder(request.Body).Decode(&body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	attempt, _ := strconv.Atoi(request.Header.Get("Pacer-Attempt"))
	admitted, _ := strconv.ParseInt(request.Header.Get("Pacer-Admitted-At"), 10, 64)
	a := arrival{
		ID: body.ID, User: body.UserID, Category: body.Category, Attempt: attempt,
		AdmittedAt: throttle.Micros(admitted),
	}
	r.mu.Lock()
	r.arrivals = append(r.arrivals, a)
	respond := r.respond
	if own := r.users[a.User]; own != nil {
		respond = own
	}
	r.mu.Unlock()
	respond(a, w)
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// respondTo has what is for a user get responses of its own.
func (r *receiver) respondTo(user string, respond func(arrival, http.ResponseWriter)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users == nil {
		r.users = map[string]func(arrival, http.ResponseWriter){}
	}
	r.users[user] = respond
}

func (r *receiver) got() []arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.arrivals)
}

// await waits until the receiver got n requests.
func (r *receiver) await(t *testing.T, n int) []arrival {
	t.Helper()
	deadline := time.After(patience)
	for {
		if got := r.got(); len(got) >= n {
			return got
		}
		select {
		case <-r.changed:
		case <-deadline:
			t.Fatalf("the receiver got %d requests, want %d", len(r.got()), n)
		}
	}
}

// setup is where a deployment keeps its store.
type setup string

const (
	onRedis    setup = "redis"
	onPostgres setup = "postgres"
)

// fleet is processes on one Redis, and on one database where it has one.
type fleet struct {
	t        *testing.T
	redisURL string
	// databaseURL is empty when the store is in Redis.
	databaseURL string
	policy      string
	apps        []*app.App
	processLogs []*processLog
}

func newDeployment(t *testing.T, on setup, policy string, processes int) *fleet {
	t.Helper()
	d := newDeploymentOn(t, on, redistest.URL(t))
	d.writePolicy(policy)
	for range processes {
		d.start()
	}
	return d
}

// newDeploymentOn is one without processes yet.
func newDeploymentOn(t *testing.T, on setup, redisURL string) *fleet {
	t.Helper()
	d := &fleet{t: t, redisURL: redisURL, policy: filepath.Join(t.TempDir(), "policy.yaml")}
	if on == onPostgres {
		d.databaseURL = postgrestest.URL(t)
	}
	return d
}

// patientWebhooks gives receivers a minute to respond. On a slow machine they need more than the usual ten seconds at
// times, and what they get then comes again, as promised, while tests count what came.
const patientWebhooks = "\nchannels: {webhook: {timeout: 1m}}\n"

// writePolicy gives the deployment a policy, also while its processes run. Its webhooks are patient unless it says
// something of channels itself.
func (d *fleet) writePolicy(text string) {
	d.t.Helper()
	if !strings.Contains(text, "channels:") {
		text += patientWebhooks
	}
	if err := processtest.ReplaceFile(d.policy, text); err != nil {
		d.t.Fatal(err)
	}
}

// hasty does not wait a minute before what all processes refuse ends as failed.
func hasty(cfg *relay.Config) { cfg.RefusalPatience = time.Second }

// settings of a process on free ports.
func (d *fleet) settings() *settings.Resolved {
	d.t.Helper()
	where, err := settings.ParseRedisURL(d.redisURL)
	if err != nil {
		d.t.Fatal(err)
	}
	kind := settings.SetupRedis
	if d.databaseURL != "" {
		kind = settings.SetupDurable
	}
	return &settings.Resolved{
		Setup: kind, Redis: where, DatabaseURL: d.databaseURL, Roles: []settings.Role{
			settings.RoleAPI, settings.RoleWorker, settings.RoleOps,
		},
		Listen: "127.0.0.1:0", OpsListen: "127.0.0.1:0", Policy: d.policy, Concurrency: 64, Partitions: 4, BulkRate: 1000,
		DrainTimeout: 20 * time.Second, WebhookAllow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}
}

func (d *fleet) start() *app.App {
	d.t.Helper()
	return d.startWith(d.settings())
}

func (d *fleet) startWith(s *settings.Resolved) *app.App {
	d.t.Helper()
	log := &processLog{}
	d.processLogs = append(d.processLogs, log)
	d.t.Cleanup(func() {
		if d.t.Failed() {
			d.t.Logf("the log of a process ends in:\n%s", log.tail())
		}
	})
	process, err := app.Hooks{Hooks: deployment.Hooks{Relay: hasty}}.New(d.t.Context(), s,
		slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		d.t.Fatalf("new process: %v", err)
	}
	if err := process.Start(d.t.Context()); err != nil {
		d.t.Fatalf("start process: %v", err)
	}
	d.t.Cleanup(func() {
		if err := process.Stop(context.Background()); err != nil {
			d.t.Errorf("stop process: %v", err)
		}
	})
	d.apps = append(d.apps, process)
	return process
}

// processLog is what a process has logged, for tests that fail.
type processLog struct {
	mu   sync.Mutex
	text []byte
}

// Write implements [io.Writer].
func (l *processLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

// all of it.
func (l *processLog) all() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.text)
}

// tail is the end of it.
func (l *processLog) tail() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.text[max(0, len(l.text)-4000):])
}

// overtaken returns the notifications of which a process did not use a grant, since it came late, or since the receiver
// had not responded for a while. On a machine that is busy with something else that may be any.
func (d *fleet) overtaken() map[string]bool {
	overtaken := map[string]bool{}
	for _, log := range d.processLogs {
		for _, unused := range []*regexp.Regexp{late, waiting} {
			for _, found := range unused.FindAllSubmatch(log.all(), -1) {
				overtaken[string(found[1])] = true
			}
		}
	}
	return overtaken
}

var (
	late    = regexp.MustCompile(`msg="a grant arrived too late to be used; returning it" notification_id=(\S+)`)
	waiting = regexp.MustCompile(`msg="a delivery can't begin now; its notification waits" notification_id=(\S+)`)
)

// call makes a request to the first process's API, again while it is refused for now, and decodes the response into v,
// if any.
func (d *fleet) call(method, path string, body []byte, header http.Header, v any) int {
	d.t.Helper()
	return d.callBy(apitest.Client, method, path, body, header, v)
}

// callOnce is call where it matters whether the first request is refused.
func (d *fleet) callOnce(method, path string, body []byte, v any) int {
	d.t.Helper()
	return d.callBy(apitest.Once, method, path, body, nil, v)
}

func (d *fleet) callBy(client *http.Client, method, path string, body []byte, header http.Header, v any) int {
	d.t.Helper()
	request, err := http.NewRequestWithContext(d.t.Context(), method, "http://"+d.apps[0].Addr()+path,
		bytes.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	request.Header = header.Clone()
	if request.Header == nil {
		request.Header = http.Header{}
	}
	request.Header.Set("Content-Type", cmp.Or(request.Header.Get("Content-Type"), "application/json"))
	response, err := client.Do(request)
	if err != nil {
		d.t.Fatal(err)
	}
	defer response.Body.Close()
	reply, err := io.ReadAll(response.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	if v != nil {
		if err := json.Unmarshal(reply, v); err != nil {
			d.t.Fatalf("%s %s returned %d %s: %v", method, path, response.StatusCode, reply, err)
		}
	}
	return response.StatusCode
}

// item is a notification as a producer writes it.
type item map[string]any

// bulk accepts items and gives their ids; all must be accepted.
func (d *fleet) bulk(items []item) []string {
	d.t.Helper()
	return d.bulkBy(apitest.Client, items)
}

func (d *fleet) bulkBy(client *http.Client, items []item) []string {
	d.t.Helper()
	body, err := json.Marshal(named(items))
	if err != nil {
		d.t.Fatal(err)
	}
	var reply struct {
		Accepted int
		Results  []struct{ ID, Error string }
	}
	if status := d.callBy(client, http.MethodPost, "/v1/notifications/bulk", body, nil, &reply); status != http.StatusOK ||
		reply.Accepted != len(items) {
		d.t.Fatalf("bulk returned %d, accepted %d of %d: %+v", status, reply.Accepted, len(items), reply.Results)
	}
	ids := make([]string, len(items))
	for i, result := range reply.Results {
		ids[i] = result.ID
	}
	return ids
}

// named gives items an id where they have none: a batch that was refused with 503 may have been accepted in part, and
// what is sent again must be what it was.
func named(items []item) []item {
	named := make([]item, len(items))
	for i, it := range items {
		named[i] = maps.Clone(it)
		if named[i]["id"] == nil {
			named[i]["id"] = uuid.NewString()
		}
	}
	return named
}

// crowd is n notifications for one user.
func (r *receiver) crowd(user, category string, n int) []item {
	items := make([]item, n)
	for i := range items {
		items[i] = item{"user_id": user, "category": category, "to": r.server.URL, "title": fmt.Sprint(i)}
	}
	return items
}

// view is what the tests read of a notification.
type view struct {
	Status    string
	Attempts  int
	Deferrals int
	Reason    string
	Timeline  []struct{ Kind string }
}

func (d *fleet) view(id string) view {
	d.t.Helper()
	var v view
	if status := d.call(http.MethodGet, "/v1/notifications/"+id, nil, nil, &v); status != http.StatusOK {
		d.t.Fatalf("notification %s: status %d", id, status)
	}
	return v
}

// stats is what the tests read of the counts.
type stats struct {
	Queued, Scheduled, Deferred, Retrying, Sending int64
	UsersDeferred                                  int64 `json:"users_deferred"`
	Partial                                        bool
	Totals                                         struct {
		Accepted, Delivered, Failed, Expired, Cancelled, Replaced, Pulls, Deferrals, Attempts int64
	}
}

func (d *fleet) stats() stats {
	d.t.Helper()
	var s stats
	if status := d.call(http.MethodGet, "/v1/stats", nil, nil, &s); status != http.StatusOK {
		d.t.Fatalf("stats: status %d", status)
	}
	return s
}

// awaitStats waits until the counts are as wanted.
func (d *fleet) awaitStats(what string, ok func(stats) bool) stats {
	d.t.Helper()
	deadline := time.Now().Add(patience)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		s := d.stats()
		if ok(s) {
			return s
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("never came: %s; the counts are %+v", what, s)
		}
		<-ticker.C
	}
}

// violations counts the pairs of admissions of one user that break a rule.
func violations(admitted []throttle.Micros, rules ...throttle.Rule) int {
	slices.Sort(admitted)
	broken := 0
	for _, rule := range rules {
		for i := rule.Max; i < len(admitted); i++ {
			if admitted[i].Sub(admitted[i-rule.Max]) < rule.Per {
				broken++
			}
		}
	}
	return broken
}

func admittedAt(arrivals []arrival) []throttle.Micros {
	at := make([]throttle.Micros, len(arrivals))
	for i, a := range arrivals {
		at[i] = a.AdmittedAt
	}
	return at
}
