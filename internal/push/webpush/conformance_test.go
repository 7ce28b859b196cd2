package webpush_test

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
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
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/content"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/internal/push/webpush"
	"github.com/pacer-notify/pacer/internal/push/webpush/webpushtest"
	"github.com/pacer-notify/pacer/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// endpointSecret is in the endpoint's path. Whoever knows it may send.
const endpointSecret = "canaryendpoint8c3d"

var base64url = base64.RawURLEncoding

// newKey makes a VAPID key.
func newKey(tb testing.TB) (private string) {
	tb.Helper()
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return base64url.EncodeToString(key.Bytes())
}

// config leads all names to this machine.
func config(p *pushtest.Provider, server *pushtest.Server, private string) webpush.Config {
	return webpush.Config{
		PrivateKey: secret.New(private), Subject: "mailto:ops@example.com",
		GuardedConfig: httpsend.GuardedConfig{
			Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Timeout: time.Hour, Roots: server.Roots(),
			Resolver: egresstest.Resolver(func(string) []netip.Addr {
				p.Contact()
				return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
			}),
		},
	}
}

func newSender(tb testing.TB, cfg webpush.Config) *webpush.Sender {
	tb.Helper()
	sender, err := webpush.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = sender.Close() })
	return sender
}

// endpoint is of a name of the certificate of httptest.
func endpoint(tb testing.TB, server *pushtest.Server) string {
	tb.Helper()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	return "https://example.com:" + port + "/push/" + endpointSecret
}

// delivered is what the service worker gets.
type delivered struct {
	ID, Title, Body, Tag string
	Data                 json.RawMessage
}

var statuses = map[pushtest.Kind]int{
	pushtest.Delivered: http.StatusCreated, pushtest.Refused: http.StatusBadRequest,
	pushtest.Failing: http.StatusServiceUnavailable, pushtest.Throttled: http.StatusTooManyRequests,
	pushtest.Gone: http.StatusGone,
}

func subject(tb testing.TB, p *pushtest.Provider) pushtest.Subject {
	tb.Helper()
	b, private := webpushtest.New(tb), newKey(tb)
	var public string
	server := pushtest.StartServer(tb, p, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if err := webpushtest.Verify(r, public, "mailto:ops@example.com"); err != nil {
			tb.Errorf("credential: %v", err)
		}
		plain, err := b.Decrypt(body)
		if err != nil || len(body) > 4096 || r.Header.Get("Content-Encoding") != "aes128gcm" ||
			r.Header.Get("Ttl") == "" {
			tb.Errorf("%d bytes with %v: %v", len(body), r.Header, err)
		}
		var d delivered
		if err := json.Unmarshal(plain, &d); err != nil || len(r.Header.Get("Topic")) > 32 {
			tb.Errorf("%q: %v", plain, err)
		}
		call := pushtest.Call{Identity: r.Header.Get("Topic"), Title: d.Title, Body: d.Body, Data: d.Data}
		pushtest.Respond(p, w, r, p.Receive(call), statuses, r.URL.String()+string(plain))
	})
	cfg := config(p, server, private)
	public = newSender(tb, cfg).PublicKey()
	target := b.Subscription(endpoint(tb, server))
	return pushtest.Subject{
		New:    func(*slog.Logger) push.Sender { return newSender(tb, cfg) },
		Target: target,
		Good: []string{
			strings.ReplaceAll(b.Subscription("https://push.example.com/x"), `"expirationTime":null,`, ""),
		},
		Bad: []string{
			"", "{}", endpoint(tb, server), "null", "[]",
			b.Subscription("http://example.com/" + endpointSecret),
			b.Subscription("https://169.254.169.254/" + endpointSecret),
			b.Subscription("https://user:pw@example.com/" + endpointSecret),
			strings.Replace(target, `"p256dh":"B`, `"p256dh":"A`, 1),
			strings.Replace(target, `"auth":"`, `"auth":"AA`, 1),
		},
		Secrets: []string{endpointSecret, strings.Trim(private[:30], "-_")},
		Identity: func(id string) string {
			return content.Digest(content.CollapseID(&notification.Notification{ID: id}))
		},
		Unplug: server.Unplug,
		Drain:  server.Close,
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	pushtest.Run(t, pushtest.Features{
		Channel: webpush.Settings{}.Channel(),
		Kinds: []pushtest.Kind{
			pushtest.Refused, pushtest.Failing, pushtest.Throttled, pushtest.Gone,
			pushtest.Hangs, pushtest.HangsUp, pushtest.Unreachable,
		},
		Delays:     []pushtest.Kind{pushtest.Failing, pushtest.Throttled},
		Content:    true,
		Data:       true,
		MaxContent: 3850,
	}, subject)
}
