package fcm_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/fcm"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/internal/secret"
)

// proxied makes a sender that calls Google's two hosts, each a server of its own, through a proxy, for which it waits
// that long.
func proxied(
	t *testing.T, secured bool, patience time.Duration, send http.HandlerFunc,
) (*fcm.Sender, *pushtest.Proxy, []string) {
	t.Helper()
	service := pushtest.StartServer(t, &pushtest.Provider{}, send)
	tokens := pushtest.StartServer(t, &pushtest.Provider{}, good(t))
	proxy := pushtest.StartProxy(t, secured)
	cfg := config(t, service)
	cfg.Credentials = secret.New(credentials(t, tokens.URL+"/token"))
	cfg.Proxy = httpsend.ProxyConfig{
		URL: proxy.URL(), Setting: "--fcm-proxy (PACER_FCM_PROXY)", Roots: proxy.Roots(), Timeout: patience,
	}
	sender, err := fcm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sender.Close() })
	return sender, proxy, []string{tokens.Listener.Addr().String(), service.Listener.Addr().String()}
}

// The exchange of the credentials for a token goes through the proxy too.
func TestCallsAndExchangesGoThroughTheProxy(t *testing.T) {
	t.Parallel()
	for name, secured := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sender, proxy, hosts := proxied(t, secured, time.Hour, func(http.ResponseWriter, *http.Request) {})
			for range 3 {
				if err := sender.Send(t.Context(), message()); err != nil {
					t.Fatal(err)
				}
			}
			if tunnels := proxy.Tunnels(); !slices.Equal(tunnels, hosts) {
				t.Errorf("tunnels to %v, want one to each of %v", tunnels, hosts)
			}
		})
	}
}

func TestAProxyThatRefusesStopsEverybody(t *testing.T) {
	t.Parallel()
	for name, exchanged := range map[string]bool{"the exchange": false, "the call": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sender, proxy, _ := proxied(t, false, 10*time.Second, func(http.ResponseWriter, *http.Request) {})
			if exchanged {
				if err := sender.Send(t.Context(), message()); err != nil {
					t.Fatal(err)
				}
				proxy.Cut()
			}
			for _, c := range []struct {
				status int
				want   push.Class
			}{{407, push.CredentialsRefused}, {502, push.Throttled}} {
				proxy.Refuse(c.status)
				got := push.Classify(sender.Send(t.Context(), message()))
				for got != nil && !strings.HasPrefix(got.Code, "proxy") { // the end of the tunnel does not show yet
					got = push.Classify(sender.Send(t.Context(), message()))
				}
				if got == nil || got.Class != c.want || got.Whom() != push.ConcernsEverybody || !got.Unsent ||
					got.Counts() || !strings.Contains(got.Error(), "--fcm-proxy (PACER_FCM_PROXY)") ||
					strings.Contains(got.Error(), "canary") {
					t.Errorf("%d gives %v, want %s of everybody, unsent, with the setting's name", c.status, got, c.want)
				}
			}
			proxy.Hang()
			got := push.Classify(sender.Send(t.Context(), message()))
			if got == nil || got.Class != push.Transient || got.Code != "proxy.timeout" || !got.Unsent {
				t.Errorf("a proxy that hangs gives %v, want transient (proxy.timeout), unsent", got)
			}
		})
	}
}
