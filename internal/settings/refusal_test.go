package settings_test

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/push/webhook"
	"github.com/pacer-notify/pacer/internal/settings"
)

// secret has the form of the Standard Webhooks specification.
var secret = whsec(24)

func whsec(bytes int) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", bytes)))
}

// wantRefusals compares the sentences of an error, and wants a usage error.
func wantRefusals(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted; want %q", want)
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("refusals differ (-want +got):\n%s", diff)
	}
	usage, ok := errors.AsType[*settings.UsageError](err)
	if !ok {
		t.Fatalf("%v holds no usage error", err)
	}
	var exit kong.ExitCoder = usage
	if exit.ExitCode() != 2 {
		t.Errorf("exit code %d", exit.ExitCode())
	}
}

// refusals is a table of values that are refused. Each refusal names the flag and its variable, and goes on with a
// sentence.
type refusals map[string]struct{ flag, value, sentence string }

// run gives each value to a command.
func (all refusals) run(t *testing.T, command ...string) {
	t.Helper()
	for name, test := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(t, nil, slices.Concat(command, []string{"--" + test.flag + "=" + test.value})...)
			variable := "PACER_" + strings.ToUpper(strings.ReplaceAll(test.flag, "-", "_"))
			if test.flag == "redis-url" || test.flag == "database-url" {
				variable = strings.TrimPrefix(variable, "PACER_")
			}
			wantRefusals(t, err, "--"+test.flag+" ("+variable+") "+test.sentence)
			wantNoLeak(t, err)
		})
	}
}

// wantNoLeak wants none of the secrets that the tables give to be shown.
func wantNoLeak(t *testing.T, err error) {
	t.Helper()
	for _, leak := range []string{"hunter", "hünter", "kkkk", "a2tra2tr"} {
		if strings.Contains(err.Error(), leak) {
			t.Errorf("%q is shown: %v", leak, err)
		}
	}
}

func TestServerRefuses(t *testing.T) {
	t.Parallel()
	const (
		database = "must be of the form postgres://user:password@host:port/database"
		ascii    = "has spaces or characters outside ASCII"
		whsecOf  = "must be whsec_ and 24 to 64 random bytes in base64"
	)
	open := func(address string) string {
		return "is " + address +
			", which other machines can reach, and needs --api-tokens (PACER_API_TOKENS) to be set; " +
			"without tokens the API only starts on a loopback address such as 127.0.0.1:8080"
	}
	refusals{
		"no partitions":       {flag: "partitions", value: "0", sentence: "must be between 1 and 1024, is 0"},
		"negative partitions": {flag: "partitions", value: "-1", sentence: "must be between 1 and 1024, is -1"},
		"too many partitions": {flag: "partitions", value: "1025", sentence: "must be between 1 and 1024, is 1025"},
		"no concurrency":      {flag: "concurrency", value: "0", sentence: "must be between 1 and 100000, is 0"},
		"too much of it": {
			flag: "concurrency", value: "100001", sentence: "must be between 1 and 100000, is 100001",
		},
		"limit not a limit": {flag: "api-limits", value: "100", sentence: `must be of the form 100/1s, is "100"`},
		"limit of nothing": {
			flag: "api-limits", value: "0/1s",
			sentence: `must allow between 1 and 1000000 requests, is "0/1s"`,
		},
		"limit too short": {
			flag: "api-route-limits", value: "1/9ms",
			sentence: `must have a window between 10ms and 24h, is "1/9ms"`,
		},
		"limit twice": {
			flag: "api-limits", value: "1/60s,2/1m", sentence: `has two limits over the same window, 1m`,
		},
		"disabled before": {
			flag: "webhook-disable-after", value: "-1s", sentence: "must not be negative, is -1s",
		},
		"events to no URL": {
			flag: "events-endpoints", value: "https://a.example/, ftp://hunter2", sentence: "must be http or https URLs without a user; number 2 is not",
		},
		"events with a wrong secret": {
			flag: "events-secret", value: "hunter2", sentence: "must be whsec_ and 24 to 64 random bytes in base64",
		},
		"retention too short": {flag: "retention", value: "59m", sentence: "must be at least 1h, is 59m"},
		"no drain":            {flag: "drain-timeout", value: "0s", sentence: "must be more than 0, is 0s"},
		"negative drain":      {flag: "drain-timeout", value: "-1s", sentence: "must be more than 0, is -1s"},
		"all addresses":       {flag: "listen", value: ":8080", sentence: open(":8080")},
		"any IPv4 address":    {flag: "listen", value: "0.0.0.0:8080", sentence: open("0.0.0.0:8080")},
		"any IPv6 address":    {flag: "listen", value: "[::]:8080", sentence: open("[::]:8080")},
		"a private address":   {flag: "listen", value: "192.168.0.1:8080", sentence: open("192.168.0.1:8080")},
		"a name":              {flag: "listen", value: "pacer.example:8080", sentence: open("pacer.example:8080")},
		"a look-alike": {
			flag: "listen", value: "localhost.example:8080", sentence: open("localhost.example:8080"),
		},
		"no port": {
			flag: "listen", value: "127.0.0.1",
			sentence: `must be an address such as 127.0.0.1:8080, is "127.0.0.1"`,
		},
		"port a name": {
			flag: "listen", value: "127.0.0.1:http",
			sentence: `must end in a port between 0 and 65535, is "127.0.0.1:http"`,
		},
		"port too large": {
			flag: "listen", value: "127.0.0.1:65536",
			sentence: `must end in a port between 0 and 65535, is "127.0.0.1:65536"`,
		},
		"a URL": {
			flag: "listen", value: "http://127.0.0.1:80",
			sentence: `must be an address such as 127.0.0.1:8080, is "http://127.0.0.1:80"`,
		},
		"a blank": {
			flag: "listen", value: "a b:80",
			sentence: `must be an address such as 127.0.0.1:8080, is "a b:80"`,
		},
		"ops without port": {
			flag: "ops-listen", value: "x",
			sentence: `must be an address such as 127.0.0.1:8080, is "x"`,
		},
		"one address twice": {
			flag: "ops-listen", value: "127.0.0.1:8080",
			sentence: "must differ from --listen (PACER_LISTEN), both are 127.0.0.1:8080",
		},
		"host with a port": {
			flag: "allowed-hosts", value: "a,b:80",
			sentence: `must hold names without a port, not "b:80"`,
		},
		"host a URL": {
			flag: "allowed-hosts", value: "http://a",
			sentence: `must hold names such as pacer.example.com or *.example.com, not "http://a"`,
		},
		"unknown role": {
			flag: "roles", value: "api,wroker",
			sentence: `must be one or more of api, worker and ops, not "wroker" (did you mean worker?)`,
		},
		"no role": {flag: "roles", value: "", sentence: "must name at least one of api, worker and ops"},
		"empty token": {
			flag: "api-tokens", value: "a,,b", sentence: "has a token that can't be used: number 2 is empty",
		},
		"blank in token": {
			flag: "api-tokens", value: "a,hunter two",
			sentence: "has a token that can't be used: number 2 " + ascii,
		},
		"token not ASCII": {
			flag: "api-tokens", value: "hüntertwo", sentence: "has a token that can't be used: number 1 " + ascii,
		},
		"no network": {
			flag: "webhook-allow", value: "lan",
			sentence: `must hold networks such as 10.0.0.0/8 or fd00::/8, not "lan"`,
		},
		"an address": {
			flag: "webhook-allow", value: "10.1.2.3",
			sentence: "must hold networks; for a single address write 10.1.2.3/32",
		},
		"network too long": {
			flag: "webhook-allow", value: "10.0.0.0/33",
			sentence: `must hold networks such as 10.0.0.0/8 or fd00::/8, not "10.0.0.0/33"`,
		},
		"ops token of blanks": {flag: "ops-token", value: "hunter2 x", sentence: ascii},
		"secret no whsec":     {flag: "webhook-secret", value: "hunter2", sentence: whsecOf},
		"secret no base64":    {flag: "webhook-secret", value: "whsec_hunter2", sentence: whsecOf},
		"secret too short": {
			flag: "webhook-secret", value: whsec(23),
			sentence: "must hold 24 to 64 bytes after whsec_, in base64; it holds 23",
		},
		"secret too long": {
			flag: "webhook-secret", value: whsec(65),
			sentence: "must hold 24 to 64 bytes after whsec_, in base64; it holds 65",
		},
		"unknown level": {
			flag: "log-level", value: "verbose",
			sentence: `must be debug, info, warn or error, is "verbose"`,
		},
		"unknown format":    {flag: "log-format", value: "xml", sentence: `must be text or json, is "xml"`},
		"another database":  {flag: "database-url", value: "mysql://u:hunter2@h/d", sentence: database},
		"database by words": {flag: "database-url", value: "host=h password=hunter2", sentence: database},
		"database left out": {flag: "database-url", value: "postgres://", sentence: database},
		"another Redis": {
			flag: "redis-url", value: "http://:hunter2@h",
			sentence: "must begin with redis://, rediss://, unix://, redis+cluster:// or redis+sentinel://",
		},
		"settings file away": {
			flag: "config", value: "/nowhere/x.yaml",
			sentence: "can't be read: open /nowhere/x.yaml: no such file or directory",
		},
		"settings file a dir": {flag: "config", value: "/", sentence: "can't be read: read /: is a directory"},
	}.run(t, "serve")
}

// The command line itself is refused before any setting is checked.
func TestCommandLineRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ argument, want string }{
		"partitions not a number": {
			argument: "--partitions=many",
			want:     `--partitions (PACER_PARTITIONS) must be a whole number between 1 and 1024, is "many"`,
		},
		"drain not a time": {
			argument: "--drain-timeout=20",
			want:     `--drain-timeout (PACER_DRAIN_TIMEOUT) must be a duration such as 20s, 15m or 720h, is "20"`,
		},
		"unknown flag": {
			argument: "--partition=3",
			want:     "there is no flag --partition (did you mean --partitions?); program serve --help lists all flags",
		},
		"an argument": {argument: "redis://u:hunter2@h", want: "program serve takes no argument redis://<secret>@h"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(t, nil, "serve", test.argument)
			wantRefusals(t, err, test.want)
			wantNoLeak(t, err)
		})
	}
}

func TestServerAccepts(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{
		"loopback by number":       {"--listen=127.8.8.8:0"},
		"loopback by IPv6":         {"--listen=[::1]:8080"},
		"loopback mapped to IPv6":  {"--listen=[::ffff:127.0.0.1]:8080"},
		"loopback by name":         {"--listen=LocalHost:8080"},
		"everywhere with a token":  {"--listen=:8080", "--api-tokens=t"},
		"everywhere without API":   {"--listen=:8080", "--roles=worker,ops"},
		"ops pages everywhere":     {"--ops-listen=:8081"},
		"any two free ports":       {"--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0"},
		"one address, one role":    {"--ops-listen=127.0.0.1:8080", "--roles=worker,ops"},
		"a wrong address unused":   {"--ops-listen=nowhere", "--roles=api"},
		"most partitions":          {"--partitions=1024"},
		"fewest partitions":        {"--partitions=1"},
		"most concurrency":         {"--concurrency=100000"},
		"shortest drain":           {"--drain-timeout=1ns"},
		"the longest secret":       {"--webhook-secret=" + whsec(64)},
		"an example of the scheme": {"--webhook-secret=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
		"Postgres by its hosts":    {"--database-url=postgres://u:p@h1:5432,h2:5432/d?target_session_attrs=read-write"},
	}
	for name, args := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := parse(t, nil, append([]string{"serve"}, args...)...); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAllRefusalsAtOnce(t *testing.T) {
	t.Parallel()
	s := settings.Server{
		Stores:  settings.Stores{RedisURL: "x", DatabaseURL: "x"},
		Logging: settings.Logging{LogFormat: "x", LogLevel: "x"},
		Roles:   []string{"api"}, Listen: "x", APITokens: []string{""}, WebhookAllow: []string{"x", "10.0.0.1"},
		Channels: settings.Channels{Webhook: webhook.Settings{Secret: "x"}},
	}
	resolved, err := s.Resolve()
	if resolved != nil {
		t.Errorf("resolved to %v", resolved)
	}
	wantRefusals(t, err,
		"--redis-url (REDIS_URL) must begin with redis://, rediss://, unix://, redis+cluster:// or redis+sentinel://",
		"--database-url (DATABASE_URL) must be of the form postgres://user:password@host:port/database",
		`--log-level (PACER_LOG_LEVEL) must be debug, info, warn or error, is "x"`,
		`--log-format (PACER_LOG_FORMAT) must be text or json, is "x"`,
		`--listen (PACER_LISTEN) must be an address such as 127.0.0.1:8080, is "x"`,
		"--api-tokens (PACER_API_TOKENS) has a token that can't be used: number 1 is empty",
		"--concurrency (PACER_CONCURRENCY) must be between 1 and 100000, is 0",
		"--partitions (PACER_PARTITIONS) must be between 1 and 1024, is 0",
		"--bulk-rate (PACER_BULK_RATE) must be between 1 and 10000, is 0",
		"--drain-timeout (PACER_DRAIN_TIMEOUT) must be more than 0, is 0s",
		"--retention (PACER_RETENTION) must be at least 1h, is 0s",
		`--webhook-allow (PACER_WEBHOOK_ALLOW) must hold networks such as 10.0.0.0/8 or fd00::/8, not "x"`,
		"--webhook-allow (PACER_WEBHOOK_ALLOW) must hold networks; for a single address write 10.0.0.1/32",
		"--webhook-secret (PACER_WEBHOOK_SECRET) must be whsec_ and 24 to 64 random bytes in base64",
	)
}

// Every part that a command embeds is checked, also when it stands beside another.
func TestOtherCommandsRefuse(t *testing.T) {
	t.Parallel()
	const url = "must be a URL such as http://127.0.0.1:8080"
	refusals{
		"stores beside logging": {
			flag: "redis-url", value: "x",
			sentence: "must begin with redis://, rediss://, unix://, redis+cluster:// or redis+sentinel://",
		},
		"logging beside stores": {
			flag: "log-level", value: "x", sentence: `must be debug, info, warn or error, is "x"`,
		},
	}.run(t, "explain", "id")
	refusals{
		"stores beside a client": {
			flag: "database-url", value: "x",
			sentence: "must be of the form postgres://user:password@host:port/database",
		},
		"server no URL":       {flag: "server", value: "localhost:8080", sentence: url},
		"server not HTTP":     {flag: "server", value: "ftp://h", sentence: url},
		"server empty":        {flag: "server", value: "", sentence: url},
		"server with a query": {flag: "server", value: "http://h?token=hunter2", sentence: url},
		"server with a password": {
			flag: "server", value: "http://u:hunter2@h",
			sentence: "must not hold a user or password; set --token (PACER_TOKEN)",
		},
		"token with a blank": {
			flag: "token", value: "hunter two", sentence: "has spaces or characters outside ASCII",
		},
	}.run(t, "enqueue")
	_, err := parse(t, nil, "explain")
	wantRefusals(t, err, "program explain needs <id>")
}

func TestEnvironmentRefusals(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ command, variable, want string }{
		"not a number": {
			command: "serve", variable: "PACER_PARTITIONS=many", want: "PACER_PARTITIONS must be a whole number between 1 and 1024",
		},
		"not a duration": {
			command: "serve", variable: "PACER_DRAIN_TIMEOUT=20",
			want: "PACER_DRAIN_TIMEOUT must be a duration such as 20s, 15m or 720h",
		},
		"neither true nor false": {
			command: "enqueue", variable: "PACER_DRY_RUN=perhaps", want: "PACER_DRY_RUN must be true or false",
		},
		"out of range": {
			command: "serve", variable: "PACER_PARTITIONS=0",
			want: "--partitions (PACER_PARTITIONS) must be between 1 and 1024, is 0",
		},
		"settings file away": {
			command: "serve", variable: "PACER_CONFIG=/nowhere",
			want: "--config (PACER_CONFIG) can't be read: open /nowhere: no such file or directory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(t, []string{test.variable}, test.command)
			wantRefusals(t, err, test.want)
		})
	}
	// A command ignores the variables of other commands.
	if _, err := parse(t, []string{"PACER_DRY_RUN=perhaps", "PACER_COUNT=x"}, "serve"); err != nil {
		t.Error(err)
	}
}
