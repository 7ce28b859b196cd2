package app_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/internal/refusal"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// What a process can't work with, it refuses in words when it starts.
func TestRefusals(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	rightless := asUser(t, server, "lesser", append(documentedRights(t), "-info")...)
	fresh := newDeployment(t, onRedis, crowdPolicy, 1)
	alone := oneNode(t)
	alone.startWith(alone.oneNodeSettings())
	at := func(url string) func(*settings.Resolved) {
		return func(s *settings.Resolved) { s.Redis, _ = settings.ParseRedisURL(url) }
	}
	for _, c := range []struct {
		name  string
		spoil func(*settings.Resolved)
		says  string
	}{
		{name: "Evicting", spoil: at(server.URL()), says: "allkeys-lru"},
		{name: "Rights", spoil: at(rightless), says: "lacks rights on Redis"},
		{name: "OtherPartitions", spoil: func(s *settings.Resolved) { s.Partitions = 5 }, says: "partitions"},
		{name: "NoPolicy", spoil: func(s *settings.Resolved) { s.Policy = "/nowhere/policy.yaml" }, says: "/nowhere"},
		{name: "TakenPort", spoil: func(s *settings.Resolved) { s.Listen = fresh.apps[0].Addr() }, says: "can't listen"},
		{
			name: "NoSchema", says: "migrate",
			spoil: func(s *settings.Resolved) {
				s.Setup, s.DatabaseURL = settings.SetupDurable, postgrestest.EmptyURL(t)
			},
		},
		{
			name: "BadDatabaseURL", says: "DATABASE_URL",
			spoil: func(s *settings.Resolved) {
				s.Setup, s.DatabaseURL = settings.SetupDurable, "postgres://pacer@127.0.0.1:port/x"
			},
		},
		{
			name: "NotAlone", spoil: func(s *settings.Resolved) { *s = *alone.oneNodeSettings() },
			says: "another process without REDIS_URL is using this database",
		},
		{
			name: "NoWorker", says: "must have the worker role",
			spoil: func(s *settings.Resolved) {
				s.Setup, s.Redis, s.Roles = settings.SetupEmbedded, nil, []settings.Role{settings.RoleAPI}
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := fresh.settings()
			c.spoil(s)
			process, err := app.New(context.Background(), s, slog.New(slog.DiscardHandler))
			var refusal *refusal.Error
			if !errors.As(err, &refusal) || process != nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v, want a refusal that says %q", err, c.says)
			}
		})
	}
}
