package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
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

// What each says is in the transcripts of package messages.
func TestRefusalsAreOneSentenceAndExitCode2(t *testing.T) {
	t.Parallel()
	faulty := written(t, "policy.yaml", "version: 1\ncategories:\n  default:\n    limits: [{max: 0, per: 1m}]\n")
	for line, says := range map[string]string{
		"--colour red":                                         "--colour",
		"dance":                                                "dance",
		"serve --roles api,dancer":                             "dancer",
		"--policy " + faulty:                                   "policy.yaml:4",
		"--policy /nowhere.yaml":                               "/nowhere.yaml",
		"--partitions 0":                                       "--partitions",
		"--listen 0.0.0.0:0":                                   "--api-tokens",
		"--redis-url http://x":                                 "--redis-url",
		"--webhook-allow here":                                 "--webhook-allow",
		"--webhook-secret canary":                              "--webhook-secret",
		"--fcm-credentials canary":                             "fcm",
		"send-test --channel apns --to canary":                 "apns",
		"send-test --channel webhok --to canary":               "webhook?",
		"send-test --channel webhook --to ftp://canary":        "--to",
		"healthcheck --ops-listen nowhere":                     "--ops-listen",
		"--redis-url redis://:canary@127.0.0.1:1":              "127.0.0.1:1",
		"--database-url postgres://pacer:canary@127.0.0.1:1/x": "DATABASE_URL",
		"--apns-key canary --apns-key-id ABCDEFGHIJ --apns-team-id ABCDEFGHIJ --apns-topic x": "apns",
		"migrate up --database-url postgres://pacer:x@canary@127.0.0.1:1/x":                   "percent-encoded",
		"--webpush-key canary --webpush-subject mailto:ops@example.com":                       "webpush",
		"--email-server https://u:canary@x --email-from a@example.com":                        "email",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			got := ask(t, strings.Fields(line)...)
			if got.code != 2 || !strings.Contains(got.err, says) || strings.Contains(got.err, "canary") ||
				strings.Count(strings.TrimSpace(got.err), "\n") > 0 {
				t.Errorf("code %d, said %q; want 2 and one line with %q, without a secret", got.code, got.err, says)
			}
		})
	}
}

func TestPolicyCheck(t *testing.T) {
	t.Parallel()
	good := written(t, "good.yaml", "version: 1\ncategories:\n  default: {limits: [{max: 1, per: 1d}]}\n")
	bad := written(t, "bad.yaml", "version: 1\ncategories:\n  default:\n    limits: [{max: 0, per: 1m}]\n    colour: red\n"+
		"channels: {webhok: {timeout: 5s}}\n")
	if got := ask(t, "policy", "check", good); got.code != 0 ||
		!strings.Contains(got.out, "good.yaml") {
		t.Errorf("a good policy: %+v", got)
	}
	if got := ask(t, "policy", "check", bad); got.code != 1 || !strings.Contains(got.err, "bad.yaml:4") ||
		!strings.Contains(got.err, "bad.yaml:5") || !strings.Contains(got.err, "bad.yaml:6") {
		t.Errorf("a bad policy: %+v", got)
	}
}

func TestNobodyToAsk(t *testing.T) {
	t.Parallel()
	for _, command := range [][]string{{"healthcheck"}, {"explain", "n1"}, {"user", "ada"}} {
		got := ask(t, append(command, "--ops-listen", "127.0.0.1:1")...)
		if got.code != 1 || !strings.Contains(got.err, "is it running") {
			t.Errorf("%v: %+v", command, got)
		}
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
// stops when told. Another one that is told the same addresses runs beside it.
func TestDemoShowsThrottledDelivery(t *testing.T) {
	t.Parallel()
	listen, opsListen := unusedAddress(t), unusedAddress(t)
	var demos sync.WaitGroup
	for until, times := range map[string]int{" phone": 2, "http://127.0.0.1:": 1} {
		demos.Go(func() {
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			seen := &watched{until: until, times: times, found: stop}
			var errs bytes.Buffer
			args := []string{"demo", "--open=false", "--listen", listen, "--ops-listen", opsListen}
			if code := run(ctx, args, streams{out: seen, err: &errs}); code != 0 {
				t.Errorf("code %d: %s", code, errs.String())
			}
			first, _, _ := strings.Cut(seen.String(), "\n")
			if !strings.Contains(first, "http://127.0.0.1:") || strings.Count(seen.String(), until) < times {
				t.Errorf("the first line is to name the dashboard, and %q to be shown:\n%s", until, seen.String())
			}
			file := regexp.MustCompile(`/\S+/[\w.-]+\.yaml`).FindString(seen.String())
			if _, err := os.Stat(file); times > 1 && (file == "" || !errors.Is(err, os.ErrNotExist)) {
				t.Errorf("the demo's policy is %s, and still there: %v", file, err)
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
