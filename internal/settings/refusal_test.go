package settings_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/push/webhook"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/test/transcript"
)

// secret has the form of the Standard Webhooks specification.
var secret = whsec(24)

func whsec(bytes int) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", bytes)))
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
	if err == nil || strings.Count(err.Error(), "\n") != 13 {
		t.Errorf("want 14 refusals, got\n%v", err)
	}
}

// TestRefusals gives the command lines of a transcript to the parser. A line that begins with $ sets a variable;
// settings.yaml: stands before the lines of a file. Each refusal is one of usage, and shows no secret.
func TestRefusals(t *testing.T) {
	t.Parallel()
	transcript.Play(t, "testdata/refusals.transcript", func(t *testing.T, lines []string) string {
		t.Helper()
		var environ, args []string
		file := "settings.yaml"
		for i, line := range lines {
			if line == "settings.yaml:" {
				file = settingsFile(t, lines[i+1:]...)
				args = append(args, "--config", file)
				break
			}
			if variable, is := strings.CutPrefix(line, "$"); is {
				environ = append(environ, variable)
				continue
			}
			command, flag, given := strings.Cut(line, " --")
			if strings.HasPrefix(line, "--") {
				command, flag, given = "", line[2:], true
			}
			args = append(args, strings.Fields(command)...)
			if given {
				args = append(args, "--"+flag)
			}
		}
		_, err := parse(t, environ, args...)
		if usage, ok := errors.AsType[*settings.UsageError](err); !ok || usage.ExitCode() != 2 {
			t.Fatalf("%q gives %v, want an error of usage", lines, err)
		}
		wantNoLeak(t, err)
		return strings.ReplaceAll(err.Error(), file, "FILE")
	})
}

func TestACommandIgnoresTheVariablesOfOthers(t *testing.T) {
	t.Parallel()
	if _, err := parse(t, []string{"PACER_DRY_RUN=perhaps", "PACER_COUNT=x"}, "serve"); err != nil {
		t.Error(err)
	}
}
