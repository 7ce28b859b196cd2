package slack_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/internal/egress/egresstest"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/internal/push/slack"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// path is a secret: who knows a webhook's URL may post there.
const path = "/services/T0CANARY1/B0CANARY2/canaryhook77d0AbCdEf012345"

var statuses = map[pushtest.Kind]int{
	pushtest.Delivered: http.StatusOK, pushtest.Refused: http.StatusForbidden,
	pushtest.Failing: http.StatusServiceUnavailable, pushtest.Throttled: http.StatusTooManyRequests,
	pushtest.Gone: http.StatusGone,
}

func TestConformance(t *testing.T) {
	t.Parallel()
	pushtest.Run(t, pushtest.Features{
		Channel: slack.Settings{}.Channel(),
		Kinds: []pushtest.Kind{
			pushtest.Refused, pushtest.Failing, pushtest.Throttled, pushtest.Gone,
			pushtest.Hangs, pushtest.HangsUp, pushtest.Unreachable,
		},
		Delays:    []pushtest.Kind{pushtest.Failing, pushtest.Throttled},
		Content:   true,
		NeedsText: true,
	}, subject)
}

func subject(tb testing.TB, p *pushtest.Provider) pushtest.Subject {
	tb.Helper()
	server := pushtest.StartServer(tb, p, func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		var body struct{ Text string }
		if err := json.Unmarshal(text, &body); err != nil || r.URL.Path != path {
			tb.Errorf("%s with %q: %v", r.URL.Path, text, err)
		}
		call := pushtest.Call{Identity: r.Header.Get("Idempotency-Key")}
		call.Title, call.Body = parts(body.Text)
		pushtest.Respond(p, w, r, p.Receive(call), statuses, string(text)+r.URL.String())
	})
	return pushtest.Subject{
		New:    func(*slog.Logger) push.Sender { return newSender(tb, config(p, server)) },
		Target: base(server) + path,
		Good: []string{
			"https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
			"https://hooks.slack-gov.com/services/T0/B0/x", "https://HOOKS.slack.com:443/services/T0/B0/x",
			"https://example.com/hooks/xxx-generatedkey-xxx",
		},
		Bad: []string{
			"", "canaryhook77d0", "http://hooks.slack.com" + path, "https://hooks.slack.com" + path + "/x",
			"https://hooks.slack.com" + strings.Replace(path, "services", "workflows", 1),
			"https://hooks.slack.com/services/T0//canaryhook77d0", "https://hooks.slack.com/services/T0/B0/canaryhook77d0?x",
			"https://hooks.slack.com.example.net" + path, "https://example.net" + path, "https://hooks.slack.com",
			"https://ada:canaryhook77d0@hooks.slack.com/services/T0/B0/x", "https://hooks.slack.com" + path + "#x",
			"https://127.0.0.1" + path, "https://hooks.slack.com" + path + "\n", "//hooks.slack.com" + path,
		},
		Secrets: []string{"canaryhook77d0", "B0CANARY2"},
		Unplug:  server.Unplug,
		Drain:   server.Close,
	}
}

// parts tells the title from the body, as people see them.
func parts(text string) (title, body string) {
	text = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(text)
	if bold, ok := strings.CutPrefix(text, "*"); ok {
		if title, body, ok = strings.Cut(bold, "*\n"); ok {
			return title, body
		}
		return strings.TrimSuffix(bold, "*"), ""
	}
	return "", text
}

// base is the server's base URL, with a name of its certificate.
func base(server *pushtest.Server) string {
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	return "https://example.com:" + port
}

// config calls the server, whose name only a name service of the test's own knows.
func config(p *pushtest.Provider, server *pushtest.Server) httpsend.HookConfig {
	return httpsend.HookConfig{
		Hosts: httpsend.Hosts{"hooks.slack.com", "hooks.slack-gov.com", "example.com"},
		GuardedConfig: httpsend.GuardedConfig{
			Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Roots: server.Roots(), Timeout: time.Hour,
			Resolver: egresstest.Resolver(func(string) []netip.Addr {
				p.Contact()
				return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
			}),
		},
	}
}

func newSender(tb testing.TB, cfg httpsend.HookConfig) *slack.Sender {
	tb.Helper()
	sender, err := slack.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = sender.Close() })
	return sender
}
