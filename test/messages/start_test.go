package messages_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// refused is why a process does not start with other settings than those of a deployment that runs.
func refused(t *testing.T, spoil func(*settings.Resolved), d *fleet) string {
	t.Helper()
	s := *d.settings
	spoil(&s)
	process, err := app.New(context.Background(), &s, slog.New(slog.DiscardHandler))
	if err == nil {
		t.Fatalf("%v starts", process)
	}
	return err.Error()
}

// startRows are refusals to start.
func startRows(d *fleet) []row {
	return []row{
		{
			name: "a Redis that is not there",
			provoke: run(
				&dispatcherPath, []string{
					"REDIS_URL=redis://127.0.0.1:1", "PACER_LISTEN=127.0.0.1:0", "PACER_OPS_LISTEN=127.0.0.1:0",
				}, "serve"),
			want: "dispatcher: Redis at redis://127.0.0.1:1 can't be reached (REDIS_URL): dial tcp 127.0.0.1:1: " +
				"connect: connection refused",
		},
		{
			name: "a Postgres that is not there",
			provoke: run(
				&dispatcherPath, []string{
					"DATABASE_URL=postgres://127.0.0.1:1/x", "PACER_LISTEN=127.0.0.1:0", "PACER_OPS_LISTEN=127.0.0.1:0",
				}, "serve"),
			want: "dispatcher: Postgres at 127.0.0.1:1/x can't be reached (DATABASE_URL): 127.0.0.1:1 (127.0.0.1): " +
				"dial error: dial tcp 127.0.0.1:1: connect: connection refused",
		},
		{
			name: "a policy that is not there", provoke: run(&dispatcherPath, nil, "serve", "--policy=/nowhere.yaml"),
			want: "dispatcher: the policy file /nowhere.yaml can't be read (--policy, PACER_POLICY): no such file or " +
				"directory",
		},
		{
			name: "a policy that is none",
			provoke: file(
				&dispatcherPath, "policy.yaml",
				"version: 1\ncategories:\n  chat: {limits: [{max: 0, per: 3s}]}\n", "serve", "--policy"),
			want: "dispatcher: DIR/policy.yaml:2:1: categories.default: is missing; it is for notifications " +
				"that name no category\n" +
				"DIR/policy.yaml:3:25: categories.chat.limits[0].max: must be between 1 and 1000000, is 0",
		},
		{
			name: "templates that are not there",
			provoke: run(
				&dispatcherPath, nil, "serve",
				"--templates=/nowhere", "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0"),
			want: "dispatcher: --templates (PACER_TEMPLATES): the folder /nowhere can't be read: no such file or " +
				"directory",
		},
		{
			name: "a VAPID subject that Apple refuses",
			provoke: run(
				&dispatcherPath, nil, "serve", "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0",
				"--webpush-key=yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw", "--webpush-subject=mailto:ops@localhost"),
			want: "dispatcher: the settings of channel webpush (--webpush-…): the subject must be an https URL or a " +
				"mailto: address of whoever runs this deployment; its host must have a name in the public DNS, or " +
				"Apple refuses it (BadJwtToken); it is localhost",
		},
		{name: "a port that is taken", provoke: func(t *testing.T) string {
			t.Helper()
			return runIn(t, dispatcherPath, nil, "", "serve", "--listen", d.process.Addr(), "--ops-listen=127.0.0.1:0")
		}, want: "dispatcher: the API can't listen on 127.0.0.1:<any>: listen tcp 127.0.0.1:<any>: bind: address " +
			"already in use"},
		{name: "another number of partitions", provoke: func(t *testing.T) string {
			t.Helper()
			return refused(t, func(s *settings.Resolved) { s.Partitions = 5 }, d)
		}, want: "this deployment has 4 partitions, --partitions says 5: every process must use the same number"},
		{name: "a Redis that evicts", provoke: func(t *testing.T) string {
			t.Helper()
			server := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
			return refused(t, func(s *settings.Resolved) { s.Redis, _ = settings.ParseRedisURL(server.URL()) }, d)
		}, want: "Redis at redis://127.0.0.1:<any> evicts keys when it is full (maxmemory-policy allkeys-lru), which " +
			"loses notifications: set maxmemory-policy noeviction"},
		{name: "a database without schema", provoke: func(t *testing.T) string {
			t.Helper()
			return refused(t, func(s *settings.Resolved) { s.DatabaseURL = postgrestest.EmptyURL(t) }, d)
		}, want: "Postgres at 127.0.0.1:<any>/<any>: the database has no schema of pacer: run dispatcher migrate up"},
	}
}
