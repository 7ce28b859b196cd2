package messages_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

const policyText = `version: 1
categories:
  default: {limits: [{max: 10, per: 1m}]}
  chat: {limits: [{max: 1, per: 3s}]}
  promo: {limits: [{max: 9, per: 1m}]}
  security: {bypass: true}
`

// names are what inputs call by $NAME: addresses, URLs and files.
type names map[string]string

// deploy starts the deployment that transcripts talk to: one process, with a store in Postgres.
func deploy(t *testing.T) (n names) {
	t.Helper()
	dir := t.TempDir()
	policy, template := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "templates", "hi", "default", "body.txt")
	write(t, policy, policyText)
	write(t, template, "hello {{.name}}")
	redisURL := redistest.URL(t)
	s := resolved(t, redisURL, policy)
	s.Setup, s.DatabaseURL = settings.SetupDurable, postgrestest.URL(t)
	s.Templates = filepath.Join(dir, "templates")
	process := start(t, s)
	soon := time.Now().UTC().Truncate(time.Second)
	return names{
		"API": process.Addr(), "OPS": process.OpsAddr(), "REDIS": redisURL, "DATABASE": s.DatabaseURL,
		"SOON": soon.Add(30 * time.Minute).Format(time.RFC3339), "LATER": soon.Add(time.Hour).Format(time.RFC3339),
		"EMPTY": postgrestest.EmptyURL(t), "EVICTING": redistest.Start(t, "--maxmemory-policy", "allkeys-lru").URL(),
		"STRANGER": stranger(t),
	}
}

// deployOthers starts deployments in which something is missing.
func deployOthers(t *testing.T, n names) {
	t.Helper()
	n["OPS_BUILT_IN"] = start(t, resolved(t, redistest.URL(t), "")).OpsAddr() // no policy file

	policies := [3]string{}
	for i := range policies {
		policies[i] = filepath.Join(t.TempDir(), "policy.yaml")
		write(t, policies[i], policyText)
	}
	n["OPS_ELSEWHERE"] = start(t, resolved(t, redistest.URL(t), policies[0])).OpsAddr()
	if err := os.Remove(policies[0]); err != nil {
		t.Fatal(err)
	}
	url := redistest.URL(t)
	n["OPS_ONE_OF_TWO"] = start(t, resolved(t, url, policies[1])).OpsAddr()
	start(t, resolved(t, url, policies[2]))

	server := redistest.Start(t)
	s := resolved(t, server.URL(), "")
	s.Setup, s.DatabaseURL = settings.SetupDurable, postgrestest.URL(t)
	n["API_WITHOUT_REDIS"] = start(t, s).Addr()
	t.Cleanup(server.Restart)
	server.Kill()
}

// stranger is the URL of another program's server.
func stranger(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "{}") // the client reads it
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func write(t *testing.T, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err := errors.Join(err, os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
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
func start(t *testing.T, s *settings.Resolved) *app.App {
	t.Helper()
	process, err := app.New(t.Context(), s, slog.New(slog.DiscardHandler))
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
