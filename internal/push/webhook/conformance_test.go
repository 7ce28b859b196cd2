package webhook_test

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/egress/egresstest"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/internal/push/webhook"
)

// targetSecret is in the targets' paths and queries, as in those of chat programs.
const targetSecret = "canarytarget5b8e"

var features = pushtest.Features{
	Channel: webhook.Settings{}.Channel(),
	Kinds: []pushtest.Kind{
		pushtest.Failing, pushtest.Throttled, pushtest.Gone,
		pushtest.Hangs, pushtest.HangsUp, pushtest.Unreachable,
	},
	Delays:  []pushtest.Kind{pushtest.Failing, pushtest.Throttled},
	Content: true,
	Data:    true,
}

func TestConformance(t *testing.T) {
	t.Parallel()
	pushtest.Run(t, features, subject)
}

// TestConformanceHTTP2 is of targets that share one connection among all calls.
func TestConformanceHTTP2(t *testing.T) {
	t.Parallel()
	pushtest.Run(t, features, subjectHTTP2)
}

// subject calls a receiver on this machine by a name, which only a name service of the test's own knows.
func subject(tb testing.TB, p *pushtest.Provider) pushtest.Subject {
	tb.Helper()
	r := newReceiver(tb, p)
	_, port, err := net.SplitHostPort(r.listener.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	return pushtest.Subject{
		New: func(*slog.Logger) push.Sender {
			return newSender(tb, config(p))
		},
		Target:  "http://receiver.test:" + port + "/" + targetSecret + "?token=" + targetSecret,
		Good:    goodTargets(port),
		Bad:     badTargets(port),
		Secrets: []string{targetSecret, signingSecret[len("whsec_"):]},
		Unplug:  r.unplug,
		Drain:   func() { r.drain(tb) },
	}
}

// subjectHTTP2 is the same with the standard library's server.
func subjectHTTP2(tb testing.TB, p *pushtest.Provider) pushtest.Subject {
	tb.Helper()
	server := pushtest.StartServer(tb, p, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			tb.Errorf("called by %s, want HTTP/2", r.Proto)
		}
		serve(p, w, r)
	})
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	return pushtest.Subject{
		New: func(*slog.Logger) push.Sender {
			cfg := config(p)
			cfg.Roots = server.Roots()
			return newSender(tb, cfg)
		},
		// A name of the certificate of httptest.
		Target:  "https://example.com:" + port + "/" + targetSecret + "?token=" + targetSecret,
		Good:    goodTargets(port),
		Bad:     badTargets(port),
		Secrets: []string{targetSecret, signingSecret[len("whsec_"):]},
		Unplug:  server.Unplug,
		// What a handler has not begun to read by then is not found to be sent, which the other subject is there for.
		Drain: server.Close,
	}
}

func config(p *pushtest.Provider) webhook.Config {
	return webhook.Config{
		Secrets:       secrets(signingSecret),
		GuardedConfig: httpsend.GuardedConfig{Resolver: resolver(p), Timeout: time.Hour},
	}
}

// resolver leads all names to this machine.
func resolver(p *pushtest.Provider) *net.Resolver {
	return egresstest.Resolver(func(string) []netip.Addr {
		p.Contact()
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	})
}

func goodTargets(port string) []string {
	return []string{
		"https://hooks.example.com/services/" + targetSecret, "http://127.0.0.1:" + port + "/", "HTTP://93.184.215.14",
		"https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]:8443/?" + targetSecret,
	}
}

func badTargets(port string) []string {
	return []string{
		"", targetSecret, "/" + targetSecret, "ftp://receiver.test:" + port + "/" + targetSecret,
		"//receiver.test:" + port + "/" + targetSecret, "http:///" + targetSecret,
		"http://ada:" + targetSecret + "@receiver.test:" + port + "/", "http://receiver.test:0/" + targetSecret,
		"http://receiver.test:" + port + "/" + targetSecret + "\r\nX: y",
		"http://receiver.test:x/" + targetSecret, "http://10.1.2.3/" + targetSecret,
		"http://169.254.169.254/" + targetSecret, "http://[::1]:" + port + "/" + targetSecret,
		"http://receiver.test:" + port + "/%zz" + targetSecret,
	}
}
