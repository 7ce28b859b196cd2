package messages_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/test/apitest"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/processtest"
	"github.com/pacer-notify/pacer/test/providertest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// The built programs.
var dispatcherPath, enqueuePath string

func TestMain(m *testing.M) {
	programs := processtest.Build(m, "dispatcher", "enqueue")
	dispatcherPath, enqueuePath = programs.Path("dispatcher"), programs.Path("enqueue")
	roots := programs.Path("roots.pem") // so that this process trusts providers of tests
	if err := errors.Join(providertest.WriteRoots(roots), os.Setenv("SSL_CERT_FILE", roots)); err != nil {
		panic(err)
	}
	os.Exit(postgrestest.Around(redistest.Around(programs)).Run())
}

const messagesPolicy = `version: 1
categories:
  default: {limits: [{max: 10, per: 1m}]}
  chat: {limits: [{max: 1, per: 3s}]}
  security: {bypass: true}
`

// fleet is a deployment of one process, with a store in Postgres.
type fleet struct {
	settings *settings.Resolved
	process  *app.App
	log      *processLog
	policy   string
}

// deploy starts a deployment.
func deploy(t *testing.T) *fleet {
	t.Helper()
	d := &fleet{log: &processLog{}, policy: filepath.Join(t.TempDir(), "policy.yaml")}
	templates := filepath.Join(t.TempDir(), "hi", "default")
	for path, text := range map[string]string{
		d.policy: messagesPolicy, filepath.Join(templates, "body.txt"): "hello {{.name}}",
	} {
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err := errors.Join(err, os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	d.settings = resolved(t, redistest.URL(t), d.policy)
	d.settings.Setup, d.settings.DatabaseURL = settings.SetupDurable, postgrestest.URL(t)
	d.settings.Templates = filepath.Dir(filepath.Dir(templates))
	d.process = start(t, d.settings, d.log)
	return d
}

// resolved are settings of a process on free ports.
func resolved(t *testing.T, redisURL, policy string) *settings.Resolved {
	t.Helper()
	where, err := settings.ParseRedisURL(redisURL)
	if err != nil {
		t.Fatal(err)
	}
	return &settings.Resolved{
		Setup: settings.SetupRedis, Redis: where, Policy: policy,
		Roles:  []settings.Role{settings.RoleAPI, settings.RoleWorker, settings.RoleOps},
		Listen: "127.0.0.1:0", OpsListen: "127.0.0.1:0", Concurrency: 64, Partitions: 4,
		DrainTimeout: 5 * time.Second, WebhookAllow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}
}

// start starts a process that is stopped with the test.
func start(t *testing.T, s *settings.Resolved, log *processLog) *app.App {
	t.Helper()
	process, err := app.New(t.Context(), s, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return process
}

// processLog is what a process has logged.
type processLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (l *processLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// await waits for a line that holds a text, and gives it without its time.
func (l *processLog) await(t *testing.T, holds string) string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		l.mu.Lock()
		text := l.text.String()
		l.mu.Unlock()
		for line := range strings.Lines(text) {
			if strings.Contains(line, holds) {
				_, line, _ = strings.Cut(strings.TrimSpace(line), " ")
				return line
			}
		}
	}
	t.Fatalf("nothing is logged that holds %s", holds)
	return ""
}

// reply is the text of a response: the detail of a problem, and else all of it.
func reply(t *testing.T, request *http.Request) string {
	t.Helper()
	response, err := apitest.Once.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var problem struct {
		Status int
		Detail string
	}
	if json.Unmarshal(body, &problem) == nil && problem.Detail != "" {
		return problem.Detail
	}
	return strings.TrimSpace(string(body))
}

// call makes a request to the API.
func (d *fleet) call(method, path, contentType, body string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+d.process.Addr()+path,
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", contentType)
		return reply(t, request)
	}
}

// post hands over a notification in JSON.
func (d *fleet) post(body string) func(*testing.T) string {
	return d.call(http.MethodPost, "/v1/notifications", "application/json", body)
}

// run runs a program with some environment and arguments, and gives what it says on standard error.
func run(program *string, environment []string, args ...string) func(*testing.T) string {
	return func(t *testing.T) string { t.Helper(); return runIn(t, *program, environment, "", args...) }
}

// runIn is run with standard input.
func runIn(t *testing.T, program string, environment []string, in string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, args...)
	command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, environment...)
	command.Stdin = strings.NewReader(in)
	command.Dir = t.TempDir()
	var said bytes.Buffer
	command.Stderr = &said
	if err := command.Run(); err == nil {
		t.Fatalf("%v succeeds: %s", args, said.String())
	}
	return strings.TrimSpace(strings.ReplaceAll(said.String(), command.Dir, "DIR"))
}

// file is run with one file in the working directory, whose name is the last argument.
func file(program *string, name, content string, args ...string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(runIn(t, *program, nil, "", append(args, filepath.Join(dir, name))...), dir, "DIR")
	}
}
