package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/stats"
)

// Every line of the figures fits a terminal of 60 columns, however long the names are, and nothing of them is lost.
func TestFiguresFitANarrowTerminal(t *testing.T) {
	t.Parallel()
	at := time.Now()
	long := strings.Repeat("a-very-long-name-", 6) + "end"
	s := &ops.Snapshot{
		At:        at,
		Counts:    stats.Counts{Deferred: 123_456, UsersDeferred: 1, OldestDeferredSeconds: 3600},
		DrainedAt: at.Add(2 * time.Hour), CrowdsExact: true,
		Problems: []ops.Problem{{Text: "webhook: " + long + " is not called (breaker open for 23s, last reply 503)."}},
		Ended: ops.Ended{Since: at, Failed: 3, Reasons: []stats.EndReason{
			{Status: "failed", Reason: "permanent: 400", Count: 3},
		}},
		Processes: []ops.Process{ops.NewProcess(
			stats.Process{ID: long, Roles: []string{"api", "worker", "ops"}, Since: at},
			ops.Report{Concurrency: 256, Policy: &ops.Policy{Version: "0123456789ab"}})},
		Channels: []ops.Channel{{Channel: "webhook", Hosts: []push.Host{{Host: long, Breaker: "closed"}}}},
		Crowds:   []stats.Crowd{{UserID: long, Category: "chat", Deferred: 9}},
		Forecast: stats.Forecast{Reasons: []stats.Held{{
			Reason: "quiet_hours", Count: 12_310, First: at.AddDate(0, 0, 1), Last: at.AddDate(0, 0, 1).Add(time.Minute),
		}}},
		Pauses: []control.Pause{{
			Subject: control.Subject{Kind: control.Channel, Name: "fcm"}, By: "ann", Why: long, At: at,
		}},
	}
	var out bytes.Buffer
	if err := showSnapshot(&out, s); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > narrowest {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{
		"deferred    123456 of 1 user, oldest 1h", "drained     in about 2h", "failed 3, expired 0",
		"3 failed: permanent: 400", "held        about 12310 by quiet_hours: the first until", "0123456789ab", "last reply", "by ann since",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	if n := strings.Count(strings.Join(strings.Fields(out.String()), ""), long); n != 5 {
		t.Errorf("the long name is there %d times, want 5, in\n%s", n, out.String())
	}
}

// The policy in force is printed as it was read, and nothing with it; who has which is said beside it.
func TestThePolicyInForceIsShown(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/policy" {
			t.Errorf("asked for %s", r.URL)
		}
		_, _ = w.Write([]byte(`{"version":"aaaa","file":"policy.yaml","loaded_at":"2026-03-14T15:09:26Z",
 "text":"version: 1\ncategories:\n  default: {min_gap: 1s}\n","processes":[
  {"id":"a-1","policy":{"version":"aaaa","file":"policy.yaml","loaded_at":"2026-03-14T15:09:26Z"}},
  {"id":"b-1","policy":{"version":"bbbb","file":"/etc/policy.yaml","loaded_at":"2026-03-14T15:09:26Z",
   "refused":"policy.yaml:3:5: is missing","refused_at":"2026-03-14T15:10:26Z"}},
  {"id":"c-1"}]}`))
	}))
	t.Cleanup(server.Close)
	got := ask(t, "policy", "show", "--ops-listen", strings.TrimPrefix(server.URL, "http://"))
	day := dayHere(t, "2026-03-14T15:09:26Z")
	for _, want := range []string{
		"# version aaaa, from policy.yaml, loaded " + day, "# b-1: version bbbb, from /etc/policy.yaml",
		"# b-1: the file is refused since " + day, "#   policy.yaml:3:5: is missing",
		"# c-1: does not report its policy",
		"# in force on 1 of 3 processes\n",
	} {
		if got.code != 0 || !strings.Contains(got.err, want) {
			t.Errorf("code %d, and %q is missing in\n%s", got.code, want, got.err)
		}
	}
	if got.out != "version: 1\ncategories:\n  default: {min_gap: 1s}\n" {
		t.Errorf("it prints\n%s", got.out)
	}
}
