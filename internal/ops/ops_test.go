package ops_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/stats"
)

var at = time.Date(2026, 3, 14, 15, 9, 26, 535_000_000, time.UTC)

var errAway = errors.New("dial tcp 10.0.0.7:6379: connection refused")

// explanation is that of a notification of which everything is known.
func explanation() *desk.Explanation {
	later := at.Add(time.Minute)
	return &desk.Explanation{
		ID: "n-1", UserID: "u-1", Category: "chat", Channel: "webhook", Priority: "high",
		Status: notification.StatusDeferred, Standing: "deferred by 1 per 3s", Attempts: 1, Deferrals: 2,
		Reason: "1 per 3s", DeliverAt: &later, Ahead: 7,
		Timeline: []desk.Step{
			{At: at, Kind: "accepted"},
			{At: at.Add(time.Second), Kind: "retrying", Detail: "transient: 503", Reply: "busy"},
		},
	}
}

// user is one of whom little is known.
func user() *desk.User {
	return &desk.User{
		UserID: "u-1", At: at, Known: true, Standing: "nothing waits", Partition: 3, Pauses: []control.Pause{},
		Categories: []desk.UserCategory{}, Devices: []desk.UserDevice{}, Latest: []desk.Brief{}, Notes: []string{},
	}
}

// lookups is a desk that finds the same for every id, and notes what was asked for.
type lookups struct {
	explanation *desk.Explanation
	user        *desk.User
	fault       error

	mu    sync.Mutex
	asked []string
}

func (l *lookups) note(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, id)
}

func (l *lookups) Explain(_ context.Context, id string) (*desk.Explanation, error) {
	l.note(id)
	return l.explanation, l.fault
}

func (l *lookups) User(_ context.Context, id string) (*desk.User, error) {
	l.note(id)
	return l.user, l.fault
}

func (l *lookups) LookUp(_ context.Context, id string) (desk.Found, error) {
	l.note(id)
	if l.user == nil {
		return desk.Found{Notification: l.explanation}, l.fault
	}
	return desk.Found{User: l.user}, l.fault
}

// config configures pages on which all is well.
func config() ops.Config {
	return ops.Config{
		Policy:     func() ops.Policy { return ops.Policy{Version: "0123456789ab", File: "policy.yaml", LoadedAt: at} },
		PolicyText: func() string { return "version: 1\n" },
		DiffPolicy: func(context.Context, []byte) (*desk.PolicyDiff, error) { return &desk.PolicyDiff{}, nil },
		Live: ops.NewLive(func(context.Context) (*ops.Snapshot, error) {
			return &ops.Snapshot{At: time.Now()}, nil
		}, slog.New(slog.DiscardHandler)),
		Ready: func(context.Context) ops.Readiness { return ops.Readiness{Stores: []string{"Redis: responds"}} },
		Desk:  &lookups{explanation: explanation(), user: user()},
		Channels: func() []ops.Channel {
			return []ops.Channel{
				{Channel: "fcm", Hosts: []push.Host{{Breaker: "open", InFlight: 2, Outcome: "transient: 503"}}},
				{Channel: "log"},
			}
		},
		Many: &desk.Many{
			Store: nothing{}, Control: noJobs{}, Log: slog.New(slog.DiscardHandler),
			Names: func() desk.Names { return desk.Names{Categories: []string{"chat"}, Channels: []string{"log"}} },
		},
		Metrics: prometheus.NewRegistry(),
		Log:     slog.New(slog.DiscardHandler),
	}
}

// nothing is a store without notifications, noJobs one without jobs.
type (
	nothing struct{ desk.ManyStore }
	noJobs  struct{ control.Store }
)

func (nothing) List(context.Context, notification.Filter) (*notification.Page, error) {
	return &notification.Page{}, nil
}

func (nothing) Find(context.Context, notification.Filter) (*notification.Found, error) {
	return &notification.Found{}, nil
}

func (nothing) History(context.Context, time.Time, time.Time) ([]stats.Hour, error) { return nil, nil }

func (noJobs) Jobs(context.Context) ([]control.Job, error) { return nil, nil }

func (noJobs) ChangeJob(context.Context, string, func(*control.Job, time.Time) error) (*control.Job, error) {
	return nil, control.ErrNoJob
}

// response is what a page responds with.
type response struct {
	Status            int
	Type, Retry, Body string
}

// ask requests a page as somebody on this machine does.
func ask(t *testing.T, cfg ops.Config, method, target string) response {
	t.Helper()
	recorder := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), method, target, nil)
	request.Host = "localhost:8081"
	local := &net.TCPAddr{IP: net.IPv6loopback, Port: 8081}
	ops.Handler(cfg).ServeHTTP(recorder,
		request.WithContext(context.WithValue(request.Context(), http.LocalAddrContextKey, local)))
	result := recorder.Result()
	body, err := io.ReadAll(result.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{
		Status: result.StatusCode, Type: result.Header.Get("Content-Type"),
		Retry: result.Header.Get("Retry-After"), Body: string(body),
	}
}

const plain, html, asJSON = "text/plain; charset=utf-8", "text/html; charset=utf-8", "application/json"

const explained = `{
  "id": "n-1",
  "user_id": "u-1",
  "category": "chat",
  "channel": "webhook",
  "priority": "high",
  "status": "deferred",
  "standing": "deferred by 1 per 3s",
  "attempts": 1,
  "deferrals": 2,
  "reason": "1 per 3s",
  "deliver_at": "2026-03-14T15:10:26.535Z",
  "ahead": 7,
  "timeline": [
    {
      "at": "2026-03-14T15:09:26.535Z",
      "kind": "accepted"
    },
    {
      "at": "2026-03-14T15:09:27.535Z",
      "kind": "retrying",
      "detail": "transient: 503",
      "reply": "busy"
    }
  ]
}
`

const listed = `[
  {
    "channel": "fcm",
    "hosts": [
      {
        "breaker": "open",
        "in_flight": 2,
        "outcome": "transient: 503"
      }
    ]
  },
  {
    "channel": "log",
    "hosts": []
  }
]
`

const known = `{
  "user_id": "u-1",
  "at": "2026-03-14T15:09:26.535Z",
  "known": true,
  "standing": "nothing waits",
  "partition": 3,
  "policy_version": "",
  "pauses": [],
  "categories": [],
  "devices": [],
  "latest": [],
  "notes": []
}
`

func TestPages(t *testing.T) {
	t.Parallel()
	away := config()
	away.Ready = func(context.Context) ops.Readiness {
		return ops.Readiness{
			Reason: "draining: this process is about to stop",
			Stores: []string{"Redis: responds", "Postgres: does not respond"},
		}
	}
	away.Desk = &lookups{fault: errAway}
	unknown := config()
	unknown.Desk = &lookups{fault: notification.ErrNotFound}
	mistaken := config()
	mistaken.Desk = &lookups{fault: &desk.NotThisError{Asked: "u-1", IsUser: true}}
	unheardOf := `no such notification: "n-1" was never accepted, or ended so long ago that it is no longer kept`
	says := func(status int, text string) response {
		return response{Status: status, Type: plain, Body: text + "\n"}
	}
	shows := func(body string) response { return response{Status: http.StatusOK, Type: asJSON, Body: body} }
	cannotRead := says(http.StatusServiceUnavailable, "the store can't be read now: this process's log says why")
	cannotRead.Retry = "2"
	notReady := "draining: this process is about to stop\nRedis: responds\nPostgres: does not respond"
	for _, tt := range []struct {
		name   string
		cfg    ops.Config
		method string // GET when empty
		target string
		want   response
	}{
		{name: "alive", cfg: config(), target: "/healthz", want: says(200, "ok")},
		{name: "alive, though not ready", cfg: away, target: "/healthz", want: says(200, "ok")},
		{name: "alive, without a body", cfg: config(), method: "HEAD", target: "/healthz", want: says(200, "ok")},
		{name: "ready", cfg: config(), target: "/readyz", want: says(200, "ready\nRedis: responds")},
		{name: "not ready", cfg: away, target: "/readyz", want: says(503, notReady)},
		{name: "explained", cfg: config(), target: "/explain/n-1", want: shows(explained)},
		{name: "explained, unknown", cfg: unknown, target: "/explain/n-1", want: says(404, unheardOf)},
		{
			name: "explained, but it is a user", cfg: mistaken, target: "/explain/u-1",
			want: says(404, "u-1 is a user, not a notification: use dispatcher user u-1"),
		},
		{name: "explained, store away", cfg: away, target: "/explain/n-1", want: cannotRead},
		{name: "user", cfg: config(), target: "/user/u-1", want: shows(known)},
		{name: "found", cfg: config(), target: "/lookup/u-1", want: shows("{\n  \"user\": " + strings.ReplaceAll(known[:len(known)-1], "\n", "\n  ") + "\n}\n")},
		{name: "user, store away", cfg: away, target: "/user/u-1", want: cannotRead},
		{name: "channels", cfg: config(), target: "/channels", want: shows(listed)},
		{name: "no id to explain", cfg: config(), target: "/explain/", want: says(404, "404 page not found")},
		{name: "no such page", cfg: config(), target: "/admin", want: says(404, "404 page not found")},
		{name: "only reading", cfg: config(), method: "POST", target: "/readyz", want: says(405, "Method Not Allowed")},
		{
			name: "no deleting", cfg: config(), method: "DELETE", target: "/user/u-1",
			want: says(405, "Method Not Allowed"),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := ask(t, tt.cfg, cmp.Or(tt.method, "GET"), tt.target)
			if diff := gocmp.Diff(tt.want, got); diff != "" {
				t.Errorf("the response differs (-want +got):\n%s", diff)
			}
		})
	}
}

// Ids come out of the address as they went in, whatever characters they hold.
func TestIDsInAddressesKeepTheirCharacters(t *testing.T) {
	t.Parallel()
	cfg, found := config(), &lookups{explanation: explanation(), user: user()}
	cfg.Desk = found
	for _, target := range []string{"/explain/a.b_c:d-9", "/user/a%2Fb", "/user/%D1%8F%20%25", "/user/a+b"} {
		if got := ask(t, cfg, "GET", target); got.Status != http.StatusOK {
			t.Errorf("%s gives %d", target, got.Status)
		}
	}
	if diff := gocmp.Diff([]string{"a.b_c:d-9", "a/b", "я %", "a+b"}, found.asked); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
}

// The log tells operators the cause. The response does not, and neither says which user was asked for.
func TestTheCauseGoesToTheLogNotIntoTheResponse(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	cfg := config()
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	cfg.Desk = &lookups{fault: errAway}
	if body := ask(t, cfg, "GET", "/user/u-secret").Body; strings.Contains(body, "10.0.0.7") {
		t.Errorf("the response tells the cause: %s", body)
	}
	line := log.String()
	if strings.Count(line, "\n") != 1 || !strings.Contains(line, "level=WARN") ||
		!strings.Contains(line, `path="GET /user/{user}"`) || !strings.Contains(line, "10.0.0.7") ||
		strings.Contains(line, "u-secret") {
		t.Errorf("the log says\n%s", line)
	}
}

// An orchestrator asks often and gives up soon, so the stores have little time to respond.
func TestReadinessIsBounded(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Ready = func(ctx context.Context) ops.Readiness {
		if deadline, bounded := ctx.Deadline(); !bounded || time.Until(deadline) > 2*time.Second {
			return ops.Readiness{Reason: "not bounded"}
		}
		return ops.Readiness{}
	}
	if got := ask(t, cfg, "GET", "/readyz"); got.Status != http.StatusOK {
		t.Errorf("readiness: %d %s", got.Status, got.Body)
	}
}

func TestIndexLeadsToEveryPage(t *testing.T) {
	t.Parallel()
	recorder := httptest.NewRecorder()
	ops.Handler(config()).ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
	if recorder.Code != http.StatusOK || recorder.Header().Get("Content-Type") != html {
		t.Errorf("%d %s", recorder.Code, recorder.Header().Get("Content-Type"))
	}
	if got := recorder.Header().Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'none'") {
		t.Errorf("the content security policy is %q", got)
	}
	page := recorder.Body.String()
	for _, target := range []string{"readyz", "metrics", "debug/pprof/", "style.css", "icon.svg"} {
		if !strings.Contains(page, `href="`+target+`"`) {
			t.Errorf("it has no link to %s", target)
		}
		if got := ask(t, config(), "GET", "/"+target); got.Status != http.StatusOK {
			t.Errorf("the link to %s gives %d", target, got.Status)
		}
	}
	if strings.Contains(page, "http://") || strings.Contains(page, "https://") {
		t.Error("it loads something from elsewhere")
	}
}

func TestMetricsPage(t *testing.T) {
	t.Parallel()
	registry, metrics := newRegistry(t, read)
	use(metrics)
	cfg := config()
	cfg.Metrics = registry
	got := ask(t, cfg, "GET", "/metrics")
	if got.Status != http.StatusOK || !strings.HasPrefix(got.Type, "text/plain") {
		t.Errorf("%d %s", got.Status, got.Type)
	}
	lines := strings.Split(got.Body, "\n")
	for _, want := range []string{
		`pacer_notifications{state="deferred"} 3`, `pacer_pulls_total 1`, `pacer_accepted_total{category="chat"} 1`,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("%s is missing in\n%s", want, got.Body)
		}
	}
}

// tracing is held by tests that trace. Only one can trace a process at a time; others would get an error.
var tracing sync.Mutex

func TestProfiles(t *testing.T) {
	t.Parallel()
	tracing.Lock()
	defer tracing.Unlock()
	for target, want := range map[string]string{
		"/debug/pprof/":                  "goroutine",
		"/debug/pprof/goroutine?debug=1": "goroutine profile: total",
		"/debug/pprof/heap?debug=1":      "heap profile",
		"/debug/pprof/symbol":            "num_symbols: 1",
	} {
		if got := ask(t, config(), "GET", target); got.Status != http.StatusOK || !strings.Contains(got.Body, want) {
			t.Errorf("%s gives %d without %q", target, got.Status, want)
		}
	}
	for _, none := range []string{"nonsense", "cmdline"} {
		if got := ask(t, config(), "GET", "/debug/pprof/"+none); got.Status != http.StatusNotFound {
			t.Errorf("profile %s, which does not exist, gives %d", none, got.Status)
		}
	}
	got := ask(t, config(), "GET", "/debug/pprof/trace?seconds=0.01")
	if got.Status != http.StatusOK || got.Type != "application/octet-stream" {
		t.Errorf("a trace gives %d %s", got.Status, got.Type)
	}
}
