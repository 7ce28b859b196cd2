package settings_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/push/fcm"
	"github.com/pacer-notify/pacer/internal/push/webhook"
	"github.com/pacer-notify/pacer/internal/settings"
)

// program is a command line as the two programs have them.
type program struct {
	Serve struct {
		settings.Server
	} `cmd:"" default:"withargs"`
	Explain struct {
		settings.File
		settings.Stores
		settings.Logging
		ID string `arg:""`
	} `cmd:""`
	Enqueue struct {
		settings.Stores
		settings.Client
		Count   int  `name:"count" default:"1"`
		Dry     bool `name:"dry-run"`
		Private bool `name:"private" env:"-"`
	} `cmd:""`
}

// parse reads a command line with an environment, without the process's own.
func parse(t *testing.T, environ []string, args ...string) (*program, error) {
	t.Helper()
	p := &program{}
	parser, err := settings.NewParser(p, "program", "Tests settings.", settings.Environ(environ))
	if err != nil {
		t.Fatal(err)
	}
	_, err = settings.Parse(parser, args)
	return p, err
}

func settingsFile(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	p, err := parse(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := settings.Server{
		Logging:      settings.Logging{LogLevel: "info"},
		Channels:     settings.Channels{FCM: fcm.Settings{Limits: []string{"600000/1m"}}},
		Webhooks:     settings.Webhooks{WebhookDisableAfter: 120 * time.Hour},
		Roles:        []string{"api", "worker", "ops"},
		Listen:       "127.0.0.1:8080",
		OpsListen:    "127.0.0.1:8081",
		Concurrency:  256,
		Partitions:   16,
		DrainTimeout: 20 * time.Second,
		Retention:    720 * time.Hour,
		BulkRate:     200,
	}
	if diff := cmp.Diff(want, p.Serve.Server); diff != "" {
		t.Errorf("settings differ (-want +got):\n%s", diff)
	}
	p, err = parse(t, nil, "enqueue")
	if err != nil {
		t.Fatal(err)
	}
	if want := (settings.Client{Server: "http://127.0.0.1:8080"}); p.Enqueue.Client != want {
		t.Errorf("client is %+v", p.Enqueue.Client)
	}
}

// TestPrecedence sets each kind of setting by every combination of sources. The strongest source must win.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	kinds := map[string]struct {
		flag, variable string
		// values of flag, environment, file; the default comes last
		values [4]string
		get    func(*program) string
	}{
		"number": {
			flag: "partitions", variable: "PACER_PARTITIONS",
			values: [4]string{"1", "2", "3", "16"},
			get:    func(p *program) string { return fmt.Sprint(p.Serve.Partitions) },
		},
		"duration": {
			flag: "drain-timeout", variable: "PACER_DRAIN_TIMEOUT",
			values: [4]string{"1s", "2s", "3s", "20s"},
			get:    func(p *program) string { return p.Serve.DrainTimeout.String() },
		},
		"text": {
			flag: "policy", variable: "PACER_POLICY",
			values: [4]string{"a.yaml", "b.yaml", "c.yaml", ""},
			get:    func(p *program) string { return p.Serve.Policy },
		},
		"text with a default": {
			flag: "ops-listen", variable: "PACER_OPS_LISTEN",
			values: [4]string{"[::1]:1", "[::1]:2", "localhost:3", "127.0.0.1:8081"},
			get:    func(p *program) string { return p.Serve.OpsListen },
		},
		"list": {
			flag: "api-tokens", variable: "PACER_API_TOKENS",
			values: [4]string{"a,b", "c,d", "e,f", ""},
			get:    func(p *program) string { return strings.Join(p.Serve.APITokens, ",") },
		},
		"list with a default": {
			flag: "roles", variable: "PACER_ROLES",
			values: [4]string{"api", "worker,ops", "ops", "api,worker,ops"},
			get:    func(p *program) string { return strings.Join(p.Serve.Roles, ",") },
		},
		"connection string": {
			flag: "redis-url", variable: "REDIS_URL",
			values: [4]string{"redis://a", "redis://b", "redis://c", ""},
			get:    func(p *program) string { return p.Serve.RedisURL },
		},
		"the other one": {
			flag: "database-url", variable: "DATABASE_URL",
			values: [4]string{"postgres://a", "postgres://b", "postgresql://c", ""},
			get:    func(p *program) string { return p.Serve.DatabaseURL },
		},
	}
	for name, kind := range kinds {
		for sources := range 8 {
			byFlag, byEnvironment, byFile := sources&4 != 0, sources&2 != 0, sources&1 != 0
			t.Run(fmt.Sprintf("%s/flag=%t environment=%t file=%t", name, byFlag, byEnvironment, byFile),
				func(t *testing.T) {
					t.Parallel()
					want := kind.values[3]
					args := []string{"serve"}
					environ := []string{"PATH=/bin", kind.variable + "_=", "_" + kind.variable + "=x"}
					if byFile {
						args = append(args, "--config", settingsFile(t, kind.flag+": "+kind.values[2]))
						want = kind.values[2]
					}
					if byEnvironment {
						environ = append(environ, kind.variable+"="+kind.values[1])
						want = kind.values[1]
					}
					if byFlag {
						args = append(args, "--"+kind.flag+"="+kind.values[0])
						want = kind.values[0]
					}
					p, err := parse(t, environ, args...)
					if err != nil {
						t.Fatal(err)
					}
					if got := kind.get(p); got != want {
						t.Errorf("got %q, want %q", got, want)
					}
				})
		}
	}
}

// everySetting are the settings that the next two tests give.
func everySetting() settings.Server {
	return settings.Server{
		Stores: settings.Stores{RedisURL: "redis://r", DatabaseURL: "postgres://d"},
		Channels: settings.Channels{
			Webhook: webhook.Settings{Secret: secret}, FCM: fcm.Settings{Limits: []string{"600000/1m"}},
		},
		Webhooks: settings.Webhooks{
			WebhookDisableAfter: 24 * time.Hour, EventsEndpoints: []string{"https://e.example/x"}, EventsSecret: secret,
			EventsTypes: []string{"device.deactivated"},
		},
		Logging:      settings.Logging{LogFormat: "json", LogLevel: "debug"},
		Roles:        []string{"api", "ops"},
		Listen:       "0.0.0.0:1",
		OpsListen:    "0.0.0.0:2",
		OpsToken:     "o",
		Policy:       "p.yaml",
		APITokens:    []string{"a", "b"},
		Concurrency:  3,
		Partitions:   4,
		DrainTimeout: 5 * time.Second,
		Retention:    720 * time.Hour,
		BulkRate:     200,
		WebhookAllow: []string{"10.0.0.0/8", "fd00::/8"},
	}
}

func TestEverySettingOfAnEnvironment(t *testing.T) {
	t.Parallel()
	p, err := parse(t, []string{
		"REDIS_URL=redis://r", "DATABASE_URL=postgres://d", "PACER_LISTEN=0.0.0.0:1", "PACER_OPS_LISTEN=0.0.0.0:2",
		"PACER_OPS_TOKEN=o",
		"PACER_POLICY=p.yaml", "PACER_API_TOKENS=a,b", "PACER_CONCURRENCY=3", "PACER_PARTITIONS=4",
		"PACER_DRAIN_TIMEOUT=5s",
		"PACER_WEBHOOK_ALLOW=10.0.0.0/8,fd00::/8", "PACER_WEBHOOK_SECRET=" + secret, "PACER_LOG_FORMAT=json",
		"PACER_LOG_LEVEL=debug", "PACER_ROLES=api,ops", "PACER_WEBHOOK_DISABLE_AFTER=24h",
		"PACER_EVENTS_ENDPOINTS=https://e.example/x", "PACER_EVENTS_SECRET=" + secret, "PACER_EVENTS_TYPES=device.deactivated",
	}, "serve")
	if err != nil {
		t.Fatal(err)
	}
	want := everySetting()
	if diff := cmp.Diff(want, p.Serve.Server); diff != "" {
		t.Errorf("settings differ (-want +got):\n%s", diff)
	}
}

func TestEverySettingOfAFile(t *testing.T) {
	t.Parallel()
	path := settingsFile(t,
		"# Both spellings of a name are known.",
		"redis-url: redis://r", "database_url: 'postgres://d'", `"listen": "0.0.0.0:1"`, "ops_listen: 0.0.0.0:2",
		"ops-token: o", "policy: p.yaml", "api-tokens: [a, b]", "concurrency: 3", "partitions: 4",
		"drain-timeout: 5s", "webhook_allow:", "  - 10.0.0.0/8", "  - fd00::/8", "webhook-secret: "+
			secret, "log_format: json", "log-level: debug",
		"roles: api,ops", "webhook-disable-after: 24h", "events-endpoints: [https://e.example/x]",
		"events-types: device.deactivated", "events_secret: "+secret,
		"server: http://other", "token: t", "count: 7", "dry_run: true",
	)
	for name, c := range map[string]struct{ environ, args []string }{
		"two arguments":  {args: []string{"serve", "--config", path}},
		"one argument":   {args: []string{"serve", "--config=" + path}},
		"no command":     {args: []string{"--config", path}},
		"by environment": {environ: []string{"PACER_CONFIG=" + path}, args: []string{"serve"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := parse(t, c.environ, c.args...)
			if err != nil {
				t.Fatal(err)
			}
			want := everySetting()
			want.File = p.Serve.File
			if p.Serve.Config != path {
				t.Errorf("config is %q", p.Serve.Config)
			}
			if diff := cmp.Diff(want, p.Serve.Server); diff != "" {
				t.Errorf("settings differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFlagNamesTheFileBeforeTheEnvironmentDoes(t *testing.T) {
	t.Parallel()
	environ := []string{"PACER_CONFIG=" + settingsFile(t, "partitions: 3")}
	if p, err := parse(t, environ, "--config", settingsFile(t, "partitions: 5")); err != nil ||
		p.Serve.Partitions != 5 {
		t.Errorf("partitions is %d, %v", p.Serve.Partitions, err)
	}
	// A command that takes no settings file ignores it.
	if _, err := parse(t, []string{"PACER_CONFIG=/nowhere"}, "enqueue"); err != nil {
		t.Error(err)
	}
}

//nolint:paralleltest,tparallel // One parser reads one after another.
func TestOneParserReadsManyCommandLines(t *testing.T) {
	t.Parallel()
	p := &program{}
	parser, err := settings.NewParser(p, "program", "", settings.Environ{"PACER_CONCURRENCY=9"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name       string
		args       []string
		partitions int
	}{
		{name: "a file", args: []string{"--config", settingsFile(t, "partitions: 3")}, partitions: 3},
		{name: "another file", args: []string{"--config", settingsFile(t, "partitions: 5")}, partitions: 5},
		{name: "no file any more", partitions: 16},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, err := settings.Parse(parser, test.args)
			if err != nil {
				t.Fatal(err)
			}
			if ctx.Command() != "serve" || p.Serve.Partitions != test.partitions || p.Serve.Concurrency != 9 {
				t.Errorf("%v: %s with %s", test.args, ctx.Command(), p.Serve)
			}
		})
	}
}

func TestEmptyVariablesCountAsNotSet(t *testing.T) {
	t.Parallel()
	environ := []string{"PACER_PARTITIONS=", "REDIS_URL=", "PACER_API_TOKENS=", "PACER_CONFIG=", "PACER_POLICY="}
	p, err := parse(t, environ, "--config", settingsFile(t, "policy: p.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if p.Serve.Partitions != 16 || p.Serve.RedisURL != "" || len(p.Serve.APITokens) != 0 || p.Serve.Policy != "p.yaml" {
		t.Errorf("settings are %s", p.Serve)
	}
}

func TestEnvironmentOfOtherFlags(t *testing.T) {
	t.Parallel()
	p, err := parse(t, []string{
		"PACER_COUNT=1", "PACER_COUNT=5", "PACER_DRY_RUN=true", "PACER_PRIVATE=true", "PACER_SERVER=https://x",
		"PACER_TOKEN=t",
	}, "enqueue")
	if err != nil {
		t.Fatal(err)
	}
	if p.Enqueue.Count != 5 || !p.Enqueue.Dry || p.Enqueue.Private || p.Enqueue.Server != "https://x" ||
		p.Enqueue.Token != "t" {
		t.Errorf("enqueue is %+v", p.Enqueue)
	}
}

func TestEnvironmentNames(t *testing.T) {
	t.Parallel()
	parser, err := settings.NewParser(&program{}, "program", "", settings.Environ{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"DATABASE_URL", "PACER_ALLOWED_HOSTS", "PACER_API_LIMITS", "PACER_API_ROUTE_LIMITS", "PACER_API_TOKENS",
		"PACER_BULK_RATE", "PACER_CONCURRENCY", "PACER_CONFIG", "PACER_COUNT", "PACER_DRAIN_TIMEOUT", "PACER_DRY_RUN",
		"PACER_EVENTS_ENDPOINTS", "PACER_EVENTS_SECRET", "PACER_EVENTS_TYPES", "PACER_LISTEN", "PACER_LOG_FORMAT",
		"PACER_LOG_LEVEL", "PACER_OPS_LISTEN", "PACER_OPS_TOKEN", "PACER_PARTITIONS", "PACER_POLICY",
		"PACER_PUBLIC_URL", "PACER_RETENTION", "PACER_ROLES", "PACER_SERVER", "PACER_TEMPLATES",
		"PACER_TOKEN", "PACER_UNSUBSCRIBE_KEY",
		"PACER_WEBHOOK_ALLOW", "PACER_WEBHOOK_DISABLE_AFTER", "REDIS_URL",
	}
	_, ofChannels, _ := everyChannelSetting(t)
	for name := range ofChannels {
		want = append(want, "PACER_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, settings.EnvironmentNames(parser)); diff != "" {
		t.Errorf("names differ (-want +got):\n%s", diff)
	}
}

func TestHelpShowsFlagsWithVariablesAndDefaults(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	ended := -1
	parser, err := settings.NewParser(&program{}, "program", "Tests settings.",
		settings.Environ{"REDIS_URL=redis://:hunter2@r", "PACER_WEBHOOK_SECRET=" + secret},
		kong.Writers(&out, &out), kong.Exit(func(code int) { ended = code }))
	if err != nil {
		t.Fatal(err)
	}
	// Exit returns in this test, so kong goes on and may find faults.
	_, _ = settings.Parse(parser, []string{"serve", "--help"})
	if ended != 0 {
		t.Errorf("ended with %d", ended)
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"Usage: program serve", "--redis-url=URL", "($REDIS_URL)", "--partitions=N", "Default: 16. ($PACER_PARTITIONS)",
		"--ops-listen=HOST:PORT", "Default: 127.0.0.1:8081. ($PACER_OPS_LISTEN)", "($PACER_CONFIG)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("help without %q:\n%s", want, out.String())
		}
	}
	for _, hidden := range []string{"hunter2", secret, "$PACER_HELP"} {
		if strings.Contains(text, hidden) {
			t.Errorf("help with %q:\n%s", hidden, out.String())
		}
	}
}

// The process's own environment counts when no other is given.
func TestParserReadsTheProcessEnvironment(t *testing.T) {
	t.Setenv("PACER_PARTITIONS", "77")
	p := &program{}
	parser, err := settings.NewParser(p, "program", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := settings.Parse(parser, nil); err != nil || p.Serve.Partitions != 77 {
		t.Errorf("partitions is %d, %v", p.Serve.Partitions, err)
	}
}
