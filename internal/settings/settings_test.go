package settings_test

import (
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pacer-notify/pacer/internal/push/webhook"
	"github.com/pacer-notify/pacer/internal/settings"
)

func TestSetup(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stores   settings.Stores
		want     settings.Setup
		embedded bool
	}{
		"neither": {want: settings.SetupEmbedded, embedded: true},
		"Redis":   {stores: settings.Stores{RedisURL: "redis://r"}, want: settings.SetupRedis},
		"both": {
			stores: settings.Stores{RedisURL: "redis://r", DatabaseURL: "postgres://d"}, want: settings.SetupDurable,
		},
		"Postgres": {
			stores: settings.Stores{DatabaseURL: "postgres://d"}, want: settings.SetupDurableOneNode, embedded: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := test.stores.Setup()
			if got != test.want || got.Embedded() != test.embedded {
				t.Errorf("got %s, embedded %t; want %s, %t", got, got.Embedded(), test.want, test.embedded)
			}
		})
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	s := settings.Server{
		Stores:       settings.Stores{RedisURL: "redis://r/3", DatabaseURL: "postgres://d"},
		Logging:      settings.Logging{LogFormat: "text", LogLevel: "warn"},
		Roles:        []string{" worker", "api", "worker"},
		Listen:       ":8080",
		OpsListen:    "127.0.0.1:8081",
		OpsToken:     "o",
		AllowedHosts: []string{"ops.example", " *.internal"},
		Policy:       "p.yaml",
		APITokens:    []string{"a", " b "},
		Concurrency:  3,
		Partitions:   4,
		DrainTimeout: 5 * time.Second,
		Retention:    720 * time.Hour,
		BulkRate:     200,
		WebhookAllow: []string{"10.1.2.3/8", " fd00::/8"},
		Channels:     settings.Channels{Webhook: webhook.Settings{Secret: secret}},
	}
	got, err := s.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	want := &settings.Resolved{
		Setup:        settings.SetupDurable,
		DatabaseURL:  "postgres://d",
		Roles:        []settings.Role{settings.RoleWorker, settings.RoleAPI},
		Listen:       ":8080",
		OpsListen:    "127.0.0.1:8081",
		OpsToken:     "o",
		AllowedHosts: []string{"ops.example", "*.internal"},
		Policy:       "p.yaml",
		APITokens:    []string{"a", "b"},
		Concurrency:  3,
		Partitions:   4,
		DrainTimeout: 5 * time.Second,
		Retention:    720 * time.Hour,
		BulkRate:     200,
		WebhookAllow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")},
		Channels:     settings.Channels{Webhook: webhook.Settings{Secret: secret}},
		LogFormat:    "text",
		LogLevel:     slog.LevelWarn,
	}
	opts := cmp.Options{
		cmpopts.IgnoreFields(settings.Resolved{}, "Redis", "Renewed", "Keys"),
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	}
	if diff := cmp.Diff(want, got, opts); diff != "" {
		t.Errorf("resolved settings differ (-want +got):\n%s", diff)
	}
	if got.Redis.String() != "redis://r:6379 database 3" {
		t.Errorf("redis is %s", got.Redis)
	}
	if !got.HasRole(settings.RoleAPI) || got.HasRole(settings.RoleOps) {
		t.Errorf("roles are %s", got.Roles)
	}

	s.RedisURL, s.DatabaseURL = "", ""
	if got, err = s.Resolve(); err != nil || got.Redis != nil || got.Setup != settings.SetupEmbedded {
		t.Errorf("without connection strings: %v, %v", got, err)
	}
}

func TestLevel(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "": slog.LevelInfo, "warn": slog.LevelWarn,
		"error": slog.LevelError,
	} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			if got, err := (settings.Logging{LogLevel: level}).Level(); err != nil || got != want {
				t.Errorf("got %s, %v; want %s", got, err, want)
			}
		})
	}
}

// A program embeds the parts that it needs, reads its command line, and uses what the settings resolve to.
func ExampleNewParser() {
	var program struct {
		settings.Server
	}
	parser, err := settings.NewParser(&program, "dispatcher", "Delivers notifications.",
		settings.Environ{
			"PACER_PARTITIONS=32", "PACER_CONCURRENCY=100", "REDIS_URL=redis://pacer:secret@redis.example",
		})
	if err != nil {
		panic(err)
	}
	if _, err := settings.Parse(parser, []string{"--concurrency=500", "--roles=worker,ops"}); err != nil {
		panic(err)
	}
	resolved, err := program.Resolve()
	if err != nil {
		panic(err)
	}
	fmt.Println(resolved.Setup, resolved.Redis, resolved.Roles)
	fmt.Println(resolved.Partitions, "partitions from the environment")
	fmt.Println(resolved.Concurrency, "deliveries at once from the command line")
	// Output:
	// redis redis://redis.example:6379 [worker ops]
	// 32 partitions from the environment
	// 500 deliveries at once from the command line
}
