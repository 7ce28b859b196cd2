package ntfy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/egress/egresstest"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/content"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/push/ntfy"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/internal/secret"
)

const (
	// topicName is a secret: who knows a topic may read it.
	topicName = "canarytopic77d0"
	token     = "tk_canarytoken31fe"
)

// statuses are those that a server responds with. It never says that a topic is gone, since every topic exists.
var statuses = map[pushtest.Kind]int{
	pushtest.Delivered: http.StatusOK, pushtest.Refused: http.StatusForbidden,
	pushtest.Failing: http.StatusServiceUnavailable, pushtest.Throttled: http.StatusTooManyRequests,
}

func TestConformance(t *testing.T) {
	t.Parallel()
	pushtest.Run(t, pushtest.Features{
		Channel: ntfy.Settings{}.Channel(),
		Kinds: []pushtest.Kind{
			pushtest.Refused, pushtest.Failing, pushtest.Throttled,
			pushtest.Hangs, pushtest.HangsUp, pushtest.Unreachable,
		},
		Delays:  []pushtest.Kind{pushtest.Failing, pushtest.Throttled},
		Content: true,
	}, subject)
}

func subject(tb testing.TB, p *pushtest.Provider) pushtest.Subject {
	tb.Helper()
	server := pushtest.StartServer(tb, p, func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		var body struct {
			Topic, Title, Message string
			SequenceID            string `json:"sequence_id"`
		}
		if err := json.Unmarshal(text, &body); err != nil || body.Topic != topicName {
			tb.Errorf("%q: %v", text, err)
		}
		call := pushtest.Call{Identity: body.SequenceID, Title: body.Title, Body: body.Message}
		pushtest.Respond(p, w, r, p.Receive(call), statuses, fmt.Sprintf("%s %v", text, r.Header))
	})
	cfg := config(p, server)
	return pushtest.Subject{
		New:    func(*slog.Logger) push.Sender { return newSender(tb, cfg) },
		Target: topicName,
		Good: []string{
			base(server) + "/" + topicName, "https://ntfy.sh/" + topicName, "http://ntfy.sh:8080/" + topicName, "a",
			strings.Repeat("A", 60) + "-_09",
		},
		Bad: []string{
			"", topicName + ".x", topicName + strings.Repeat("x", 64), "ü" + topicName, "https://ntfy.sh/",
			"https://ntfy.sh/a/" + topicName, "https://ntfy.sh/" + topicName + "?auth=x",
			"https://ntfy.sh/" + topicName + "#x", "https://ada:pw@ntfy.sh/" + topicName,
			"ftp://ntfy.sh/" + topicName, "/" + topicName, "//ntfy.sh/" + topicName,
			"http://10.1.2.3/" + topicName, "https://169.254.169.254/" + topicName, "https://[::1]/" + topicName,
		},
		Secrets: []string{topicName, strings.TrimPrefix(token, "tk_")},
		Identity: func(id string) string {
			return content.Digest(content.CollapseID(&notification.Notification{ID: id}))
		},
		Unplug: server.Unplug,
		Drain:  server.Close,
	}
}

// base is the server's base URL, with a name of its certificate.
func base(server *pushtest.Server) string {
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	return "https://example.com:" + port
}

// config calls the server, whose name only a name service of the test's own knows.
func config(p *pushtest.Provider, server *pushtest.Server) ntfy.Config {
	return ntfy.Config{
		Server: base(server), Token: secret.New(token),
		GuardedConfig: httpsend.GuardedConfig{
			Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Roots: server.Roots(), Timeout: time.Hour,
			Resolver: egresstest.Resolver(func(string) []netip.Addr {
				p.Contact()
				return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
			}),
		},
	}
}

func newSender(tb testing.TB, cfg ntfy.Config) *ntfy.Sender {
	tb.Helper()
	sender, err := ntfy.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = sender.Close() })
	return sender
}
