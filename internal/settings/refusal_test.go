package settings_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
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

// wantRefusals compares the sentences of an error, and wants nothing but usage errors in it.
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

func TestServerRefuses(t *testing.T) {
	t.Parallel()
	const tokens = "--api-tokens (PACER_API_TOKENS)"
	open := func(address string) string {
		return "--listen (PACER_LISTEN) is " + address + ", which other machines can reach, and needs " + tokens +
			" to be set; without tokens the HTTP API only starts on a loopback address such as 127.0.0.1:8080"
	}
	tests := map[string]struct{ flag, want string }{
		"no partitions":           {"--partitions=0", "--partitions (PACER_PARTITIONS) must be between 1 and 1024, is 0"},
		"negative partitions":     {"--partitions=-1", "--partitions (PACER_PARTITIONS) must be between 1 and 1024, is -1"},
		"too many partitions":     {"--partitions=1025", "--partitions (PACER_PARTITIONS) must be between 1 and 1024, is 1025"},
		"no concurrency":          {"--concurrency=0", "--concurrency (PACER_CONCURRENCY) must be between 1 and 100000, is 0"},
		"too much of it":          {"--concurrency=100001", "--concurrency (PACER_CONCURRENCY) must be between 1 and 100000, is 100001"},
		"limit not a limit":       {"--api-limits=100", `--api-limits (PACER_API_LIMITS) must be of the form 100/1s, is "100"`},
		"limit of nothing":        {"--api-limits=0/1s", `--api-limits (PACER_API_LIMITS) must allow between 1 and 1000000 requests, is "0/1s"`},
		"limit too short":         {"--api-route-limits=1/9ms", `--api-route-limits (PACER_API_ROUTE_LIMITS) must have a window between 10ms and 24h0m0s, is "1/9ms"`},
		"limit twice":             {"--api-limits=1/60s,2/1m", `--api-limits (PACER_API_LIMITS) has two limits over 1m0s`},
		"retention too short":     {"--retention=59m", "--retention (PACER_RETENTION) must be at least 1h0m0s, is 59m0s"},
		"no drain":                {"--drain-timeout=0s", "--drain-timeout (PACER_DRAIN_TIMEOUT) must be more than 0, is 0s"},
		"negative drain":          {"--drain-timeout=-1s", "--drain-timeout (PACER_DRAIN_TIMEOUT) must be more than 0, is -1s"},
		"all addresses":           {"--listen=:8080", open(":8080")},
		"any IPv4 address":        {"--listen=0.0.0.0:8080", open("0.0.0.0:8080")},
		"any IPv6 address":        {"--listen=[::]:8080", open("[::]:8080")},
		"a private address":       {"--listen=192.168.0.1:8080", open("192.168.0.1:8080")},
		"a name":                  {"--listen=pacer.example:8080", open("pacer.example:8080")},
		"a look-alike":            {"--listen=localhost.example:8080", open("localhost.example:8080")},
		"no port":                 {"--listen=127.0.0.1", `--listen (PACER_LISTEN) must be an address such as 127.0.0.1:8080, is "127.0.0.1"`},
		"port a name":             {"--listen=127.0.0.1:http", `--listen (PACER_LISTEN) must end in a port between 0 and 65535, is "127.0.0.1:http"`},
		"port too large":          {"--listen=127.0.0.1:65536", `--listen (PACER_LISTEN) must end in a port between 0 and 65535, is "127.0.0.1:65536"`},
		"a URL":                   {"--listen=http://127.0.0.1:80", `--listen (PACER_LISTEN) must be an address such as 127.0.0.1:8080, is "http://127.0.0.1:80"`},
		"a blank":                 {"--listen=a b:80", `--listen (PACER_LISTEN) must be an address such as 127.0.0.1:8080, is "a b:80"`},
		"ops without port":        {"--ops-listen=x", `--ops-listen (PACER_OPS_LISTEN) must be an address such as 127.0.0.1:8080, is "x"`},
		"one address twice":       {"--ops-listen=127.0.0.1:8080", "--ops-listen (PACER_OPS_LISTEN) must differ from --listen (PACER_LISTEN), both are 127.0.0.1:8080"},
		"host with a port":        {"--allowed-hosts=a,b:80", `--allowed-hosts (PACER_ALLOWED_HOSTS) must hold names without a port, not "b:80"`},
		"host a URL":              {"--allowed-hosts=http://a", `--allowed-hosts (PACER_ALLOWED_HOSTS) must hold names such as pacer.example.com or *.example.com, not "http://a"`},
		"unknown role":            {"--roles=api,wroker", `--roles (PACER_ROLES) must be some of api, worker and ops, not "wroker"`},
		"no role":                 {"--roles=", "--roles (PACER_ROLES) must name at least one of api, worker and ops"},
		"empty token":             {"--api-tokens=a,,b", tokens + " has at place 2 a token that is empty"},
		"blank in token":          {"--api-tokens=a,hunter two", tokens + " has at place 2 a token that holds blanks or characters outside of ASCII"},
		"token not ASCII":         {"--api-tokens=hüntertwo", tokens + " has at place 1 a token that holds blanks or characters outside of ASCII"},
		"no network":              {"--webhook-allow=lan", `--webhook-allow (PACER_WEBHOOK_ALLOW) must hold networks such as 10.0.0.0/8 or fd00::/8, not "lan"`},
		"an address":              {"--webhook-allow=10.1.2.3", "--webhook-allow (PACER_WEBHOOK_ALLOW) must hold networks; write 10.1.2.3/32 for the one address"},
		"network too long":        {"--webhook-allow=10.0.0.0/33", `--webhook-allow (PACER_WEBHOOK_ALLOW) must hold networks such as 10.0.0.0/8 or fd00::/8, not "10.0.0.0/33"`},
		"ops token of blanks":     {"--ops-token=hunter2 x", "--ops-token (PACER_OPS_TOKEN) holds blanks or characters outside of ASCII"},
		"secret no whsec":         {"--webhook-secret=hunter2", "--webhook-secret (PACER_WEBHOOK_SECRET) must be whsec_ and 24 to 64 random bytes in base64"},
		"secret no base64":        {"--webhook-secret=whsec_hunter2", "--webhook-secret (PACER_WEBHOOK_SECRET) must be whsec_ and 24 to 64 random bytes in base64"},
		"secret too short":        {"--webhook-secret=" + whsec(23), "--webhook-secret (PACER_WEBHOOK_SECRET) must hold 24 to 64 bytes after whsec_, in base64; it holds 23"},
		"secret too long":         {"--webhook-secret=" + whsec(65), "--webhook-secret (PACER_WEBHOOK_SECRET) must hold 24 to 64 bytes after whsec_, in base64; it holds 65"},
		"unknown level":           {"--log-level=verbose", `--log-level (PACER_LOG_LEVEL) must be debug, info, warn or error, is "verbose"`},
		"unknown format":          {"--log-format=xml", `--log-format (PACER_LOG_FORMAT) must be text or json, is "xml"`},
		"another database":        {"--database-url=mysql://u:hunter2@h/d", "--database-url (DATABASE_URL) must be of the form postgres://user:password@host:port/database"},
		"database by words":       {"--database-url=host=h password=hunter2", "--database-url (DATABASE_URL) must be of the form postgres://user:password@host:port/database"},
		"database left out":       {"--database-url=postgres://", "--database-url (DATABASE_URL) must be of the form postgres://user:password@host:port/database"},
		"another Redis":           {"--redis-url=http://:hunter2@h", "--redis-url (REDIS_URL) must begin with redis://, rediss://, unix://, redis+cluster:// or redis+sentinel://"},
		"partitions not a number": {"--partitions=many", `--partitions: expected a valid 64 bit int but got "many"`},
		"drain not a time":        {"--drain-timeout=20", `--drain-timeout: expected duration but got "20": time: missing unit in duration "20"`},
		"unknown flag":            {"--partition=3", `unknown flag --partition, did you mean "--partitions"?`},
		"an argument":             {"redis://u:hunter2@h", "unexpected argument redis://<secret>@h"},
		"settings file away":      {"--config=/nowhere/x.yaml", "--config (PACER_CONFIG) can't be read: open /nowhere/x.yaml: no such file or directory"},
		"settings file a dir":     {"--config=/", "--config (PACER_CONFIG) can't be read: read /: is a directory"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(t, nil, "serve", test.flag)
			wantRefusals(t, err, test.want)
			for _, leak := range []string{"hunter", "hünter", "kkkk", "a2tra2tr"} {
				if strings.Contains(err.Error(), leak) {
					t.Errorf("%q is shown: %v", leak, err)
				}
			}
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
		Roles:   []string{"api"}, Listen: "x", APITokens: []string{""}, WebhookAllow: []string{"x", "10.0.0.1"}, Channels: settings.Channels{Webhook: webhook.Settings{Secret: "x"}},
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
		"--api-tokens (PACER_API_TOKENS) has at place 1 a token that is empty",
		"--concurrency (PACER_CONCURRENCY) must be between 1 and 100000, is 0",
		"--partitions (PACER_PARTITIONS) must be between 1 and 1024, is 0",
		"--drain-timeout (PACER_DRAIN_TIMEOUT) must be more than 0, is 0s",
		"--retention (PACER_RETENTION) must be at least 1h0m0s, is 0s",
		`--webhook-allow (PACER_WEBHOOK_ALLOW) must hold networks such as 10.0.0.0/8 or fd00::/8, not "x"`,
		"--webhook-allow (PACER_WEBHOOK_ALLOW) must hold networks; write 10.0.0.1/32 for the one address",
		"--webhook-secret (PACER_WEBHOOK_SECRET) must be whsec_ and 24 to 64 random bytes in base64",
	)
}

// Every part that a command embeds is checked, and one that stands beside another is not forgotten.
func TestOtherCommandsRefuse(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		want string
	}{
		"stores beside logging":  {[]string{"explain", "id", "--redis-url=x"}, "--redis-url (REDIS_URL) must begin with redis://, rediss://, unix://, redis+cluster:// or redis+sentinel://"},
		"logging beside stores":  {[]string{"explain", "id", "--log-level=x"}, `--log-level (PACER_LOG_LEVEL) must be debug, info, warn or error, is "x"`},
		"stores beside a client": {[]string{"enqueue", "--database-url=x"}, "--database-url (DATABASE_URL) must be of the form postgres://user:password@host:port/database"},
		"server no URL":          {[]string{"enqueue", "--server=localhost:8080"}, "--server (PACER_SERVER) must be a URL such as http://127.0.0.1:8080"},
		"server not HTTP":        {[]string{"enqueue", "--server=ftp://h"}, "--server (PACER_SERVER) must be a URL such as http://127.0.0.1:8080"},
		"server empty":           {[]string{"enqueue", "--server="}, "--server (PACER_SERVER) must be a URL such as http://127.0.0.1:8080"},
		"server with a query":    {[]string{"enqueue", "--server=http://h?token=hunter2"}, "--server (PACER_SERVER) must be a URL such as http://127.0.0.1:8080"},
		"server with a password": {[]string{"enqueue", "--server=http://u:hunter2@h"}, "--server (PACER_SERVER) must not hold a user or password; set --token (PACER_TOKEN)"},
		"token with a blank":     {[]string{"enqueue", "--token=hunter two"}, "--token (PACER_TOKEN) holds blanks or characters outside of ASCII"},
		"missing argument":       {[]string{"explain"}, `expected "<id>"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(t, nil, test.args...)
			wantRefusals(t, err, test.want)
		})
	}
}

func TestEnvironmentRefusals(t *testing.T) {
	t.Parallel()
	for variable, want := range map[string]string{
		"PACER_PARTITIONS=many":  "PACER_PARTITIONS must be a whole number",
		"PACER_DRAIN_TIMEOUT=20": "PACER_DRAIN_TIMEOUT must be a duration such as 20s",
		"PACER_PARTITIONS=0":     "--partitions (PACER_PARTITIONS) must be between 1 and 1024, is 0",
		"PACER_CONFIG=/nowhere":  "--config (PACER_CONFIG) can't be read: open /nowhere: no such file or directory",
	} {
		_, err := parse(t, []string{variable}, "serve")
		wantRefusals(t, err, want)
	}
	_, err := parse(t, []string{"PACER_DRY_RUN=perhaps"}, "enqueue")
	wantRefusals(t, err, "PACER_DRY_RUN must be true or false")
	// What another command would refuse is none of this one's business.
	if _, err := parse(t, []string{"PACER_DRY_RUN=perhaps", "PACER_COUNT=x"}, "serve"); err != nil {
		t.Error(err)
	}
}

func TestSettingsFileRefusals(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		lines []string
		want  []string
	}{
		"unknown setting":      {[]string{"listen: :1", "", "partition: 4"}, []string{"FILE:3:1: unknown setting \"partition\"; did you mean partitions?"}},
		"nothing near":         {[]string{"replicas: 4"}, []string{"FILE:1:1: unknown setting \"replicas\""}},
		"camel case":           {[]string{"opsListen: :1"}, []string{"FILE:1:1: unknown setting \"opsListen\"; did you mean ops-listen?"}},
		"two at once":          {[]string{"redis_ulr: x", "partitions: 3", "polcy: x"}, []string{"FILE:1:1: unknown setting \"redis_ulr\"; did you mean redis-url?", "FILE:3:1: unknown setting \"polcy\"; did you mean policy?"}},
		"file in file":         {[]string{"config: other.yaml"}, []string{"FILE:1:1: config can't be set in the settings file itself"}},
		"help":                 {[]string{"help: true"}, []string{"FILE:1:1: unknown setting \"help\""}},
		"twice in two ways":    {[]string{"log-level: info", "log_level: warn"}, []string{"FILE:2:1: log-level is already set on line 1"}},
		"no value":             {[]string{"policy:"}, []string{"FILE:1:9: policy must be one value, or a list of them"}},
		"a mapping":            {[]string{"partitions:", "  count: 3"}, []string{"FILE:2:8: partitions must be one value, or a list of them"}},
		"a list in a list":     {[]string{"roles: [[api]]"}, []string{"FILE:1:9: roles must be a list of texts"}},
		"not a number":         {[]string{"listen: :1", "partitions: many"}, []string{"FILE:2:13: partitions must be a whole number"}},
		"a list for a number":  {[]string{"partitions: [1, 2]"}, []string{"FILE:1:13: partitions must be a whole number"}},
		"a list for a text":    {[]string{"policy: [a, b]"}, []string{"FILE:1:9: policy must be one text"}},
		"not a duration":       {[]string{"drain-timeout: 20"}, []string{"FILE:1:16: drain-timeout must be a duration such as 20s"}},
		"out of range":         {[]string{"partitions: 0"}, []string{"--partitions (PACER_PARTITIONS) must be between 1 and 1024, is 0"}},
		"a list of settings":   {[]string{"- partitions: 4"}, []string{"FILE:1:1: a settings file holds lines such as partitions: 16"}},
		"broken YAML":          {[]string{"partitions: 4", "roles: [api"}, []string{"FILE:2:8: not readable as YAML: sequence end token ']' not found"}},
		"broken beside secret": {[]string{"webhook-secret: [hunter2"}, []string{"FILE:1:17: not readable as YAML: sequence end token ']' not found"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := settingsFile(t, test.lines...)
			_, err := parse(t, nil, "serve", "--config", path)
			for i := range test.want {
				test.want[i] = strings.Replace(test.want[i], "FILE", path, 1)
			}
			wantRefusals(t, err, test.want...)
		})
	}
}

func TestEmptySettingsFileSetsNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "# nothing yet\n", "---\n"} {
		path := filepath.Join(t.TempDir(), "settings.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if p, err := parse(t, nil, "--config", path); err != nil || p.Serve.Partitions != 16 {
			t.Errorf("%q: %v, %s", text, err, p.Serve)
		}
	}
}

// Whatever is printed of the settings, the secrets in them are not.
func TestSettingsHideTheirSecrets(t *testing.T) {
	t.Parallel()
	p, err := parse(t, []string{
		"REDIS_URL=redis://u:hunter2@r", "DATABASE_URL=postgres://u:hunter2@d/x", "PACER_API_TOKENS=hunter2,hunter22",
		"PACER_WEBHOOK_SECRET=" + secret, "PACER_TOKEN=hunter2",
	}, "serve")
	if err != nil {
		t.Fatal(err)
	}
	resolved, err := p.Serve.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	enqueue, err := parse(t, []string{"PACER_TOKEN=hunter2", "REDIS_URL=redis://u:hunter2@r"}, "enqueue")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		for _, value := range []any{
			p.Serve, &p.Serve, p.Serve.Server, p.Serve.Stores, resolved, resolved.Redis, p, *p,
			enqueue.Enqueue, enqueue.Enqueue.Client, enqueue.Enqueue.Stores,
		} {
			fmt.Fprintf(&out, format+"\n", value)
		}
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("settings", "server", p.Serve.Server, "stores", p.Serve.Stores, "resolved", resolved,
			"redis", resolved.Redis, "client", enqueue.Enqueue.Client)
	}
	for _, leak := range []string{"hunter", secret} {
		if i := strings.Index(out.String(), leak); i >= 0 {
			t.Errorf("shown: ...%s", out.String()[max(0, i-200):i+len(leak)])
		}
	}
	for _, want := range []string{"redis-url:<secret>", "partitions:16", "redis://r:6379", "server:http://127.0.0.1:8080"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("nothing shows %q:\n%s", want, out.String())
		}
	}
}
