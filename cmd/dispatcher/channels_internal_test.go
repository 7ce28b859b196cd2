package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// One is sent past queue and throttle, and the response of the provider is told.
func TestSendTestTellsTheResponse(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]struct {
		code int
		says string
	}{
		http.StatusNoContent:       {says: "delivered: the provider took it"},
		http.StatusGone:            {code: 1, says: "gone: the provider no longer knows the target (410), again after 7s: said 410"},
		http.StatusTooManyRequests: {code: 1, says: "throttled: the provider asks to slow down (429), again after 7s: said 429"},
		http.StatusBadRequest:      {code: 1, says: "failed for now: it may work later (400), again after 7s: said 400"},
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			ids := make(chan string, 1)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ids <- r.Header.Get("Webhook-Id")
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(status)
				_, _ = fmt.Fprintf(w, "said %d", status)
			}))
			t.Cleanup(server.Close)
			got := ask(t, "send-test", "--channel", "webhook", "--to", server.URL)
			if got.code != want.code || !strings.HasPrefix(got.out, want.says) {
				t.Errorf("code %d, said %q and %q; want %d and %q", got.code, got.out, got.err, want.code, want.says)
			}
			if id := <-ids; id == "" {
				t.Error("it was sent without an id")
			}
		})
	}
}

// dayHere is the date of a moment in the time zone of this machine, which is the one that people read.
func dayHere(t *testing.T, moment string) string {
	t.Helper()
	at, err := time.Parse(time.RFC3339, moment)
	if err != nil {
		t.Fatal(err)
	}
	return at.Local().Format(time.DateOnly)
}

// Each channel is listed with what is known of its provider.
func TestChannelsAreListed(t *testing.T) {
	t.Parallel()
	ops := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/channels" {
			t.Errorf("asked for %s", r.URL)
		}
		_, _ = w.Write([]byte(`[{"channel":"apns","hosts":[{"breaker":"closed","in_flight":3,"outcome":"delivered","outcome_at":"2026-03-14T15:09:26Z"}]},
			{"channel":"email","hosts":[
  {"breaker":"closed","in_flight":0,"paused_until":"2096-03-14T15:09:26Z","outcome":"credentials_refused: 535"}]},
			{"channel":"log","hosts":[]},
 {"channel":"webhook","hosts":[{"host":"a.example","breaker":"half-open","in_flight":0},
  {"host":"b.example","breaker":"closed","in_flight":0,"outcome":"transient: dns","failing":true}]},
  {"channel":"fcm","hosts":[],
   "paused":{"kind":"channel","name":"fcm","by":"ann","why":"quota","at":"2026-03-14T15:09:26Z"}}]`))
	}))
	t.Cleanup(ops.Close)
	got := ask(t, "channels", "--ops-listen", strings.TrimPrefix(ops.URL, "http://"))
	for _, want := range []string{
		"apns", "calling", "delivered", "configured, not used yet", "a.example", "trying one call",
		"not called until " + dayHere(t, "2096-03-14T15:09:26Z"), "calling, the latest call failed",
		"paused by ann since " + dayHere(t, "2026-03-14T15:09:26Z"),
	} {
		if got.code != 0 || !strings.Contains(got.out, want) {
			t.Errorf("code %d, and %q is missing in\n%s%s", got.code, want, got.out, got.err)
		}
	}
}

// A sender with a name is tried by its whole name.
func TestSendTestBySenderWithAName(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(file, []byte("channels:\n  webhook:partner: {limits: 9/1s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	test := func(channel string) asked {
		return ask(t, "send-test", "--config", file, "--channel", channel, "--to", server.URL)
	}
	if got := test("webhook:partner"); got.code != 0 || !strings.HasPrefix(got.out, "delivered") {
		t.Errorf("code %d, said %q and %q", got.code, got.out, got.err)
	}
	if got := test("webhook:parter"); got.code != 2 || !strings.Contains(got.err, "(did you mean webhook:partner?)") {
		t.Errorf("code %d, said %q and %q", got.code, got.out, got.err)
	}
}
