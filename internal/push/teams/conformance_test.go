package teams_test

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
	"github.com/pacer-notify/pacer/internal/push/teams"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// path is a secret: who knows a webhook's URL may post there.
const path = "/workflows/0123456789abcdef/triggers/manual/paths/invoke?api-version=2016-06-01" +
	"&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig=canaryhook77d0AbCdEf012345"

var statuses = map[pushtest.Kind]int{
	pushtest.Delivered: http.StatusAccepted, pushtest.Refused: http.StatusForbidden,
	pushtest.Failing: http.StatusServiceUnavailable, pushtest.Throttled: http.StatusTooManyRequests,
	pushtest.Gone: http.StatusGone,
}

func TestConformance(t *testing.T) {
	t.Parallel()
	pushtest.Run(t, pushtest.Features{
		Channel: teams.Settings{}.Channel(),
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
		var body posted
		if err := json.Unmarshal(text, &body); err != nil || r.URL.RequestURI() != path || len(text) > 28<<10 {
			tb.Errorf("%s with %d bytes: %v", r.URL.Path, len(text), err)
		}
		call := pushtest.Call{Identity: r.Header.Get("Idempotency-Key")}
		call.Title, call.Body = body.parts(tb)
		pushtest.Respond(p, w, r, p.Receive(call), statuses, string(text)+r.URL.String())
	})
	return pushtest.Subject{
		New:    func(*slog.Logger) push.Sender { return newSender(tb, config(p, server)) },
		Target: base(server) + path,
		Good: []string{
			"https://prod-12.westeurope.logic.azure.com:443" + path,
			"https://default0123.af.environment.api.powerplatform.com:443/powerautomate/automations/direct" + path,
			"https://contoso.webhook.office.com/webhookb2/0@1/IncomingWebhook/2/3",
		},
		Bad: []string{
			"", "canaryhook77d0", "http://prod-12.westeurope.logic.azure.com" + path,
			"https://prod-12.westeurope.logic.azure.com/workflows/canaryhook77d0",
			"https://x.api.powerplatform.com/canaryhook77d0?sig=", "https://logic.azure.com" + path,
			"https://prod-12.westeurope.logic.azure.com.example.net" + path, "https://example.net" + path,
			"https://example.com", "https://ada:canaryhook77d0@example.com/x", "https://example.com/x#canaryhook77d0",
			"https://127.0.0.1" + path, "https://example.com" + path + "\n", "//example.com" + path,
		},
		Secrets: []string{"canaryhook77d0"},
		Unplug:  server.Unplug,
		Drain:   server.Close,
	}
}

// posted is what a webhook gets.
type posted struct {
	Type        string
	Attachments []struct {
		ContentType string
		Content     struct {
			Type string
			Body []struct {
				Inlines []struct{ Type, Text, Weight string }
			}
		}
	}
}

// parts tells the title from the lines of the body, as people see them.
func (p posted) parts(tb testing.TB) (title, body string) {
	tb.Helper()
	if p.Type != "message" || len(p.Attachments) != 1 || p.Attachments[0].Content.Type != "AdaptiveCard" ||
		p.Attachments[0].ContentType != "application/vnd.microsoft.card.adaptive" {
		tb.Errorf("posted %+v", p)
		return "", ""
	}
	var lines []string
	for _, element := range p.Attachments[0].Content.Body {
		switch run := element.Inlines[0]; {
		case run.Type != "TextRun":
			tb.Errorf("posted %+v", element)
		case run.Weight == "Bolder":
			title = run.Text
		default:
			lines = append(lines, strings.TrimSuffix(run.Text, "\u00a0"))
		}
	}
	return title, strings.Join(lines, "\n")
}

// base is the server's base URL, with a name of its certificate.
func base(server *pushtest.Server) string {
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	return "https://example.com:" + port
}

// config calls the server, whose name only a name service of the test's own knows.
func config(p *pushtest.Provider, server *pushtest.Server) httpsend.HookConfig {
	return httpsend.HookConfig{
		Hosts: httpsend.Hosts{
			"*.logic.azure.com", "*.powerplatform.com", "*.webhook.office.com", "example.com",
		},
		GuardedConfig: httpsend.GuardedConfig{
			Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Roots: server.Roots(), Timeout: time.Hour,
			Resolver: egresstest.Resolver(func(string) []netip.Addr {
				p.Contact()
				return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
			}),
		},
	}
}

func newSender(tb testing.TB, cfg httpsend.HookConfig) *teams.Sender {
	tb.Helper()
	sender, err := teams.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = sender.Close() })
	return sender
}
