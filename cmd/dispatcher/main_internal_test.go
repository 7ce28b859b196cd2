package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/processtest"
)

// asked is what a command line led to.
type asked struct {
	code     int
	out, err string
}

func ask(t *testing.T, args ...string) asked {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), args, streams{&out, &errs})
	return asked{code: code, out: out.String(), err: errs.String()}
}

func TestRefusalsAreOneSentenceAndExitCode2(t *testing.T) {
	t.Parallel()
	faulty := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(faulty, []byte("version: 1\ncategories:\n  default:\n    limits: [{max: 0, per: 1m}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"UnknownFlag":    {args: []string{"--colour", "red"}, says: "--colour"},
		"UnknownCommand": {args: []string{"dance"}, says: "dance"},
		"UnknownRole":    {args: []string{"serve", "--roles", "api,dancer"}, says: "dancer"},
		"BadPolicy":      {args: []string{"--policy", faulty}, says: "policy.yaml:4"},
		"NoPolicy":       {args: []string{"--policy", "/nowhere.yaml"}, says: "/nowhere.yaml"},
		"Partitions":     {args: []string{"--partitions", "0"}, says: "--partitions"},
		"OpenAPI":        {args: []string{"--listen", "0.0.0.0:0"}, says: "--api-tokens"},
		"RedisURL":       {args: []string{"--redis-url", "http://x"}, says: "--redis-url"},
		"Postgres": {
			args: []string{"--database-url", "postgres://pacer:canary@127.0.0.1:1/x"}, says: "DATABASE_URL",
		},
		"MigratePassword": {
			args: []string{"migrate", "up", "--database-url", "postgres://pacer:x@canary@127.0.0.1:1/x"},
			says: "percent-encoded",
		},
		"WebhookAllow":  {args: []string{"--webhook-allow", "here"}, says: "--webhook-allow"},
		"WebhookSecret": {args: []string{"--webhook-secret", "canary"}, says: "--webhook-secret"},
		"FCMKey":        {args: []string{"--fcm-credentials", "canary"}, says: "fcm"},
		"APNsKey": {
			args: []string{
				"--apns-key", "canary", "--apns-key-id", "ABCDEFGHIJ", "--apns-team-id", "ABCDEFGHIJ", "--apns-topic",
				"x",
			},
			says: "apns",
		},
		"WebPushKey": {
			args: []string{"--webpush-key", "canary", "--webpush-subject", "mailto:ops@example.com"}, says: "webpush",
		},
		"EmailServer": {
			args: []string{"--email-server", "https://u:canary@x", "--email-from", "a@example.com"}, says: "email",
		},
		"TestOfNothing": {args: []string{"send-test", "--channel", "apns", "--to", "canary"}, says: "apns"},
		"TestOfNoChannel": {
			args: []string{"send-test", "--channel", "webhok", "--to", "canary"}, says: "(did you mean webhook?)",
		},
		"TestOfBadURL": {args: []string{"send-test", "--channel", "webhook", "--to", "ftp://canary"}, says: "--to"},
		"OpsListen":    {args: []string{"healthcheck", "--ops-listen", "nowhere"}, says: "--ops-listen"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ask(t, c.args...)
			if got.code != 2 || !strings.Contains(got.err, c.says) {
				t.Errorf("code %d, said %q, want 2 and %q", got.code, got.err, c.says)
			}
			if strings.Count(strings.TrimSpace(got.err), "\n") > 0 || strings.Contains(got.err, "canary") {
				t.Errorf("said %q: want one line, without a secret", got.err)
			}
		})
	}
}

func TestUnreachableRedisIsRefused(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	code := run(ctx, []string{"--redis-url", "redis://:canary@127.0.0.1:1"}, streams{&out, &errs})
	if code != 2 || !strings.Contains(errs.String(), "127.0.0.1:1") ||
		strings.Contains(errs.String(), "canary") {
		t.Errorf("code %d, said %q", code, errs.String())
	}
}

func TestPolicyCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	for file, text := range map[string]string{
		good: "version: 1\ncategories:\n  default: {limits: [{max: 1, per: 1d}]}\n",
		bad:  "version: 1\ncategories:\n  default:\n    limits: [{max: 0, per: 1m}]\n    colour: red\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := ask(t, "policy", "check", good); got.code != 0 ||
		!strings.Contains(got.out, "good.yaml") {
		t.Errorf("a good policy: %+v", got)
	}
	if got := ask(t, "policy", "check", bad); got.code != 1 || !strings.Contains(got.err, "bad.yaml:4") ||
		!strings.Contains(got.err, "bad.yaml:5") {
		t.Errorf("a bad policy: %+v", got)
	}
}

func TestNobodyToAsk(t *testing.T) {
	t.Parallel()
	for _, command := range [][]string{{"healthcheck"}, {"explain", "n1"}, {"user", "ada"}} {
		t.Run(command[0], func(t *testing.T) {
			t.Parallel()
			got := ask(t, append(command, "--ops-listen", "127.0.0.1:1")...)
			if got.code != 1 || !strings.Contains(got.err, "is it running") {
				t.Errorf("%+v", got)
			}
		})
	}
}

// Why something waits, and behind how many of the user's.
func TestExplain(t *testing.T) {
	t.Parallel()
	ops := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"id": "n1", "user_id": "ada", "status": "deferred", "reason": "user_cap 60/1h",
			"standing": "deferred by user_cap 60/1h, goes out at 2026-03-14T15:09:26.535Z", "ahead": 3}`))
	}))
	defer ops.Close()
	got := ask(t, "explain", "n1", "--ops-listen", ops.Listener.Addr().String())
	for _, want := range []string{"deferred", "user_cap 60/1h", "3 of the user's"} {
		if got.code != 0 || !strings.Contains(got.out, want) {
			t.Errorf("%q is missing: %+v", want, got)
		}
	}
	if strings.Contains(got.out, "through a user cap") {
		t.Errorf("the policy need not have a user cap: %+v", got)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	if got := ask(t, "version"); got.code != 0 || !strings.Contains(got.out, "go1.") ||
		!strings.Contains(got.out, "tzdata ") {
		t.Errorf("version: %+v", got)
	}
	program := exec.CommandContext(t.Context(), os.Args[0], "--version")
	program.Env = append(os.Environ(), asProgram+"=1")
	if out, err := program.CombinedOutput(); err != nil || !strings.Contains(string(out), "go1.") {
		t.Errorf("--version: %v\n%s", err, out)
	}
}

// The demo shows, with no setting at all, notifications that waited for their slots and went to a user's devices, and
// stops when told.
func TestDemoShowsThrottledDelivery(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen := &watched{until: " phone", times: 2, found: cancel}
	var errs bytes.Buffer
	if code := run(ctx, []string{"demo", "--open=false", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"}, streams{out: seen, err: &errs}); code != 0 {
		t.Fatalf("code %d: %s", code, errs.String())
	}
	first, _, _ := strings.Cut(seen.String(), "\n")
	if !strings.Contains(first, "http://127.0.0.1:") {
		t.Errorf("the first line does not name the dashboard: %s", first)
	}
	if strings.Count(seen.String(), seen.until) < seen.times {
		t.Errorf("no throttled delivery to a device was shown:\n%s", seen.String())
	}
	file := regexp.MustCompile(`/\S+/[\w.-]+\.yaml`).FindString(seen.String())
	if _, err := os.Stat(file); file == "" || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the demo's policy is %s, and still there: %v", file, err)
	}
}

// Demos that start at the same moment run beside each other, although all of them are told the same addresses.
func TestDemosRunBesideEachOther(t *testing.T) {
	t.Parallel()
	listen, opsListen := unusedAddress(t), unusedAddress(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var demos sync.WaitGroup
	for range 2 {
		demos.Go(func() {
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			seen := &watched{until: "http://127.0.0.1:", times: 1, found: stop}
			var errs bytes.Buffer
			args := []string{"demo", "--open=false", "--listen", listen, "--ops-listen", opsListen}
			if code := run(ctx, args, streams{out: seen, err: &errs}); code != 0 || seen.Len() == 0 {
				t.Errorf("code %d: %s%s", code, seen.String(), errs.String())
			}
		})
	}
	demos.Wait()
}

// unusedAddress is one on which nobody listens.
func unusedAddress(t *testing.T) string {
	t.Helper()
	port, err := processtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// A browser is opened for somebody who watches, and never in a test.
func TestNobodyWatchesATest(t *testing.T) {
	t.Parallel()
	if hasBrowser(&bytes.Buffer{}) {
		t.Error("a browser would be opened for a buffer")
	}
}

// watched is an output that calls found once it holds a text so often. One goroutine writes to it at a time.
type watched struct {
	bytes.Buffer
	until string
	times int
	found func()
}

// Write implements io.Writer.
func (w *watched) Write(data []byte) (int, error) {
	n, err := w.Buffer.Write(data)
	if strings.Count(w.String(), w.until) >= w.times {
		w.found()
	}
	return n, err
}
