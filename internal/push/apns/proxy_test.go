package apns_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/apns"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
)

// proxied makes a sender that calls the handler through a proxy, for which it waits that long.
func proxied(
	t *testing.T, secured bool, patience time.Duration, handler http.HandlerFunc,
) (*apns.Sender, *pushtest.Proxy, string) {
	t.Helper()
	server, proxy := pushtest.StartServer(t, &pushtest.Provider{}, handler), pushtest.StartProxy(t, secured)
	cfg := newKey(t).config(server)
	cfg.Proxy = httpsend.ProxyConfig{
		URL: proxy.URL(), Setting: "--apns-proxy (PACER_APNS_PROXY)", Roots: proxy.Roots(),
		Timeout: patience,
	}
	sender, err := apns.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sender.Close() })
	return sender, proxy, server.Listener.Addr().String()
}

// One tunnel carries all calls over HTTP/2. When it is cut, another one is made.
func TestCallsGoThroughTheProxy(t *testing.T) {
	t.Parallel()
	for name, secured := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sender, proxy, provider := proxied(t, secured, time.Hour, func(_ http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor != 2 {
					t.Errorf("called with %s", r.Proto)
				}
			})
			for range 3 {
				if err := sender.Send(t.Context(), message()); err != nil {
					t.Fatal(err)
				}
			}
			if tunnels := proxy.Tunnels(); len(tunnels) != 1 || tunnels[0] != provider {
				t.Errorf("tunnels to %v, want one to %s", tunnels, provider)
			}
			proxy.Cut()
			for err := errors.New("cut"); err != nil; {
				err = sender.Send(t.Context(), message()) // a call may find the old tunnel before its end shows
			}
			if tunnels := proxy.Tunnels(); len(tunnels) != 2 {
				t.Errorf("tunnels to %v, want a second one", tunnels)
			}
		})
	}
}

func TestAProxyThatRefusesStopsEverybody(t *testing.T) {
	t.Parallel()
	sender, proxy, _ := proxied(t, false, 10*time.Second, func(http.ResponseWriter, *http.Request) {
		t.Error("a call got through")
	})
	for _, c := range []struct {
		status int
		want   push.Class
	}{{407, push.CredentialsRefused}, {502, push.Throttled}} {
		proxy.Refuse(c.status)
		got := push.Classify(sender.Send(t.Context(), message()))
		if got == nil || got.Class != c.want || got.Whom() != push.ConcernsEverybody || !got.Unsent || got.Counts() ||
			!strings.Contains(got.Error(), "--apns-proxy (PACER_APNS_PROXY)") ||
			strings.Contains(got.Error(), "canary") {
			t.Errorf("%d gives %v, want %s of everybody, unsent, with the setting's name", c.status, got, c.want)
		}
	}
	proxy.Hang()
	got := push.Classify(sender.Send(t.Context(), message()))
	if got == nil || got.Class != push.Transient || got.Code != "proxy.timeout" || !got.Unsent {
		t.Errorf("a proxy that hangs gives %v, want transient (proxy.timeout), unsent", got)
	}
}
