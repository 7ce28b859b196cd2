package ops_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
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
	"github.com/pacer-notify/pacer/test/transcript"
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
		Week: autumn(),
	}
}

// autumn is the week of a user in Vienna in which the clocks go back, of which a part is not known yet.
func autumn() *desk.Week {
	midnight := time.Date(2026, 10, 23, 22, 0, 0, 0, time.UTC)
	in := func(hours int) time.Time { return midnight.Add(time.Duration(hours) * time.Hour) }
	known := in(40)
	return &desk.Week{Zone: "Europe/Vienna", Categories: []string{"chat"}, KnownUntil: &known, Days: []desk.WeekDay{
		{Date: "2026-10-24", Begins: in(0), Noon: in(12), Ends: in(24), Quiet: []desk.Span{{From: in(22), Until: in(24)}}},
		{Date: "2026-10-25", Begins: in(24), Noon: in(37), Ends: in(49), Quiet: []desk.Span{{From: in(24), Until: in(33)}}},
		{Date: "2026-10-26", Begins: in(49), Noon: in(61), Ends: in(73), Quiet: []desk.Span{}},
	}}
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
		Policy: func() ops.Policy {
			return ops.Policy{Version: "0123456789ab", File: "policy.yaml", LoadedAt: at}
		},
		PolicyContent: func() ops.PolicyContent { return ops.PolicyContent{Text: "version: 1\n"} },
		DiffPolicy:    func(context.Context, []byte) (*desk.PolicyDiff, error) { return &desk.PolicyDiff{}, nil },
		ForcePolicy:   func(context.Context, string) error { return nil },
		Live: ops.NewLive(func(context.Context) (*ops.Snapshot, error) {
			return &ops.Snapshot{At: time.Now(), Channels: []ops.Channel{
				{Channel: "fcm", Hosts: []push.Host{{Breaker: "open", InFlight: 2, Outcome: "transient: 503"}}},
				{Channel: "log", Hosts: []push.Host{}},
			}}, nil
		}, slog.New(slog.DiscardHandler)),
		Ready: func(context.Context) ops.Readiness { return ops.Readiness{Stores: []string{"Redis: responds"}} },
		Desk:  &lookups{explanation: explanation(), user: user()},
		Channels: func() []ops.Channel {
			return ops.ChannelsHere([]string{"log"}, func(string) []push.Host { return nil })
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
	return &notification.Page{Next: "older", Items: []notification.View{{
		Status:       notification.StatusFailed,
		Notification: notification.Notification{ID: strings.Repeat("n-1.", 16), UserID: "u-1", CreatedAt: at},
	}}}, nil
}

func (nothing) Find(context.Context, notification.Filter) (*notification.Found, error) {
	return &notification.Found{}, nil
}

func (nothing) History(context.Context, time.Time, time.Time) ([]stats.Hour, error) { return nil, nil }

func (noJobs) Jobs(context.Context) ([]control.Job, error) { return nil, nil }

func (noJobs) ChangeJob(context.Context, string, func(*control.Job, time.Time) error) (*control.Job, error) {
	return nil, control.ErrNoJob
}

// ask requests a page as somebody on this machine does.
func ask(t *testing.T, cfg ops.Config, method, target string) *httptest.ResponseRecorder {
	t.Helper()
	recorder := httptest.NewRecorder()
	ops.Handler(cfg).ServeHTTP(recorder, asked(t, method, target, "[::1]:8081", "localhost:8081"))
	return recorder
}

// What pages respond stands in the transcript, which names one of these configurations before the request. Statuses
// stand here: programs rely on them.
func TestPages(t *testing.T) {
	t.Parallel()
	late := fmt.Errorf("no reply within 5s: %w", context.DeadlineExceeded)
	configs := map[string]ops.Config{}
	for name, c := range map[string]struct {
		fault error
		ready ops.Readiness
	}{
		"well": {ready: ops.Readiness{Stores: []string{"Redis: responds"}}},
		"away": {fault: errAway, ready: ops.Readiness{
			Reason: "draining: this process is about to stop",
			Stores: []string{"Redis: responds", "Postgres: does not respond"},
		}},
		"both":     {fault: late, ready: ops.Readiness{Away: []string{"Redis", "Postgres"}}},
		"slow":     {fault: late, ready: ops.Readiness{Slow: []string{"Postgres is slow: a reply takes 1.6 s"}}},
		"late":     {fault: late},
		"unknown":  {fault: notification.ErrNotFound},
		"mistaken": {fault: &desk.NotThisError{Asked: "u-1", IsUser: true}},
	} {
		cfg := config()
		cfg.Ready = func(context.Context) ops.Readiness { return c.ready }
		if c.fault != nil {
			cfg.Desk = &lookups{fault: c.fault}
			cfg.Live = ops.NewLive(func(context.Context) (*ops.Snapshot, error) { return nil, c.fault }, cfg.Log)
		}
		configs[name] = cfg
	}
	statuses := map[string]int{
		"away /readyz": 503, "unknown /explain/n-1": 404, "mistaken /explain/u-1": 404, "away /explain/n-1": 503,
		"away /user/u-1": 503, "well /explain/": 404, "well /admin": 404, "well POST /readyz": 405,
		"well DELETE /user/u-1": 405, "both /user/u-1": 503, "slow /explain/n-1": 503, "late /?q=n-1": 503,
	}
	transcript.Play(t, "testdata/pages.transcript", func(t *testing.T, lines []string) string {
		t.Helper()
		words := strings.Fields(lines[0])
		method, target := http.MethodGet, words[len(words)-1]
		if len(words) > 2 {
			method = words[1]
		}
		got := ask(t, configs[words[0]], method, target)
		if want := cmp.Or(statuses[lines[0]], http.StatusOK); got.Code != want {
			t.Errorf("%s: %d, want %d", lines[0], got.Code, want)
		}
		if waits := got.Header().Get("Retry-After") != ""; waits != (got.Code == 503 && target != "/readyz") {
			t.Errorf("%s: Retry-After %q", lines[0], got.Header().Get("Retry-After"))
		}
		return got.Header().Get("Content-Type") + "\n" + got.Body.String()
	})
}

// Ids come out of the address as they went in, whatever characters they hold.
func TestIDsInAddressesKeepTheirCharacters(t *testing.T) {
	t.Parallel()
	cfg, found := config(), &lookups{explanation: explanation(), user: user()}
	cfg.Desk = found
	for _, target := range []string{"/explain/a.b_c:d-9", "/user/a%2Fb", "/user/%D1%8F%20%25", "/user/a+b"} {
		if got := ask(t, cfg, "GET", target); got.Code != http.StatusOK {
			t.Errorf("%s gives %d", target, got.Code)
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
	if body := ask(t, cfg, "GET", "/user/u-secret").Body.String(); strings.Contains(body, "10.0.0.7") {
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
	if got := ask(t, cfg, "GET", "/readyz"); got.Code != http.StatusOK {
		t.Errorf("readiness: %d %s", got.Code, got.Body)
	}
}

func TestIndexLeadsToEveryPage(t *testing.T) {
	t.Parallel()
	recorder := httptest.NewRecorder()
	ops.Handler(config()).ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
	if recorder.Code != http.StatusOK || !strings.HasPrefix(recorder.Header().Get("Content-Type"), "text/html") {
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
		if got := ask(t, config(), "GET", "/"+target); got.Code != http.StatusOK {
			t.Errorf("the link to %s gives %d", target, got.Code)
		}
	}
	if strings.Contains(page, "http://") || strings.Contains(page, "https://") {
		t.Error("it loads something from elsewhere")
	}
}

// tracing is held by tests that trace. Only one can trace a process at a time; others would get an error.
var tracing sync.Mutex
