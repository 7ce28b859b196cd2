package webhook_test

import (
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/egress/egresstest"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/internal/push/webhook"
	"github.com/pacer-notify/pacer/internal/secret"
)

// targetSecret is in the targets' paths and queries, as in those of chat programs.
const targetSecret = "canarytarget5b8e"

func TestConformance(t *testing.T) {
	t.Parallel()
	pushtest.Run(t, pushtest.Features{
		Channel: notification.ChannelWebhook,
		Answers: []pushtest.Kind{
			pushtest.Refused, pushtest.Failing, pushtest.Throttled, pushtest.Gone,
			pushtest.Hangs, pushtest.HangsUp, pushtest.Unreachable,
		},
		Delays:  []pushtest.Kind{pushtest.Failing, pushtest.Throttled},
		Content: true,
		Data:    true,
	}, subject)
}

// subject calls a receiver on this machine by a name, which only a name service of the test's own knows.
func subject(tb testing.TB, p *pushtest.Provider) pushtest.Subject {
	tb.Helper()
	r := newReceiver(tb, p)
	_, port, err := net.SplitHostPort(r.listener.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	resolver := egresstest.Resolver(func(string) []netip.Addr {
		p.Contact()
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	})
	return pushtest.Subject{
		New: func(*slog.Logger) push.Sender {
			return newSender(tb, webhook.Config{Secret: secret.New(signingSecret), Resolver: resolver, Timeout: time.Hour})
		},
		Target: "http://receiver.example:" + port + "/" + targetSecret + "?token=" + targetSecret,
		Good: []string{
			"https://hooks.example.com/services/" + targetSecret, "http://127.0.0.1:" + port + "/", "HTTP://93.184.215.14",
			"https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]:8443/?" + targetSecret,
		},
		Bad: []string{
			"", targetSecret, "/" + targetSecret, "ftp://receiver.example:" + port + "/" + targetSecret,
			"//receiver.example:" + port + "/" + targetSecret, "http:///" + targetSecret,
			"http://ada:" + targetSecret + "@receiver.example:" + port + "/", "http://receiver.example:0/" + targetSecret,
			"http://receiver.example:" + port + "/" + targetSecret + "\r\nX: y", "http://receiver.example:x/" + targetSecret,
			"http://10.1.2.3/" + targetSecret, "http://169.254.169.254/" + targetSecret, "http://[::1]:" + port + "/" + targetSecret,
			"http://receiver.example:" + port + "/%zz" + targetSecret,
		},
		Secrets: []string{targetSecret, signingSecret[len("whsec_"):]},
		Unplug:  r.unplug,
		Drain:   func() { r.drain(tb) },
	}
}
