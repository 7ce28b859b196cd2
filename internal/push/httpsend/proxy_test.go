package httpsend_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/internal/secret"
)

const setting = "--x-proxy (PACER_X_PROXY)"

// through dials as a channel with this proxy does.
func through(t *testing.T, cfg httpsend.ProxyConfig) httpsend.Dialer {
	t.Helper()
	cfg.Setting = setting
	dialer, err := cfg.Through(&net.Dialer{})
	if err != nil {
		t.Fatal(err)
	}
	return dialer
}

// echo listens, and sends back what it reads.
func echo(t *testing.T) (address string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return listener.Addr().String()
}

func TestATunnelCarriesBytesBothWays(t *testing.T) {
	t.Parallel()
	for name, secured := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy, provider := pushtest.StartProxy(t, secured), echo(t)
			dialer := through(t, httpsend.ProxyConfig{URL: proxy.URL(), Roots: proxy.Roots()})
			conn, err := dialer.DialContext(t.Context(), "tcp", provider)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			const text = "there and back"
			got := make([]byte, len(text))
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != text {
				t.Errorf("got %q, %v", got, err)
			}
			if tunnels := proxy.Tunnels(); len(tunnels) != 1 || tunnels[0] != provider {
				t.Errorf("tunnels to %v, want one to %s", tunnels, provider)
			}
		})
	}
}

// A proxy's refusal stops everybody, since nothing gets out; it says which setting to look at, and costs nothing. One
// that does not respond is like a provider that does not.
func TestAProxyThatMakesNoTunnel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		prepare func(*pushtest.Proxy, *httpsend.ProxyConfig)
		want    push.Error
		says    string
	}{
		{
			name:    "a wrong password",
			prepare: func(p *pushtest.Proxy, c *httpsend.ProxyConfig) { c.URL = p.URLWith("canarywrong") },
			want: push.Error{
				Class: push.CredentialsRefused, Code: "proxy.407", Concerns: push.ConcernsEverybody,
			},
			says: "the proxy of " + setting + " responds with 407: it wants another user and password in that URL",
		},
		{
			name:    "a host that is not allowed",
			prepare: func(p *pushtest.Proxy, _ *httpsend.ProxyConfig) { p.Refuse(http.StatusForbidden) },
			want: push.Error{
				Class: push.CredentialsRefused, Code: "proxy.403", Concerns: push.ConcernsEverybody,
			},
			says: "the proxy of " + setting + " responds with 403 and makes no connection",
		},
		{
			name:    "a provider out of its reach",
			prepare: func(p *pushtest.Proxy, _ *httpsend.ProxyConfig) { p.Refuse(http.StatusBadGateway) },
			want: push.Error{
				Class: push.Throttled, Code: "proxy.502", Concerns: push.ConcernsEverybody, RetryAfter: 7 * time.Second,
			},
			says: "the proxy of " + setting + " responds with 502 and makes no connection",
		},
		{
			name: "it hangs",
			prepare: func(p *pushtest.Proxy, c *httpsend.ProxyConfig) {
				p.Hang()
				c.Timeout = 100 * time.Millisecond
			},
			want: push.Error{Class: push.Transient, Code: "proxy.timeout", Concerns: push.ConcernsHost},
			says: "the proxy of " + setting + " does not respond in time",
		},
		{
			name: "nobody listens",
			prepare: func(_ *pushtest.Proxy, c *httpsend.ProxyConfig) {
				c.URL = secret.New("http://pacer:canaryproxy5c1d@127.0.0.1:1")
			},
			want: push.Error{Class: push.Transient, Code: "proxy", Concerns: push.ConcernsHost},
			says: "the proxy of " + setting + " cannot be reached: dial tcp 127.0.0.1:1: connect: connection refused",
		},
	} {
		for _, secured := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, TLS %t", c.name, secured), func(t *testing.T) {
				t.Parallel()
				proxy := pushtest.StartProxy(t, secured)
				cfg := httpsend.ProxyConfig{URL: proxy.URL(), Roots: proxy.Roots()}
				c.prepare(proxy, &cfg)
				_, err := through(t, cfg).DialContext(t.Context(), "tcp", "provider.example.com:443")
				got := (&httpsend.Trace{}).Classify(err)
				if got.Class != c.want.Class || got.Code != c.want.Code || got.Concerns != c.want.Concerns ||
					got.RetryAfter != c.want.RetryAfter || !got.Unsent || got.Counts() {
					t.Errorf("got %+v, want %+v, unsent", got, c.want)
				}
				if got.Err == nil || !strings.HasPrefix(got.Err.Error(), c.says) ||
					strings.Contains(got.Error(), "canary") {
					t.Errorf("says %v, want %s", got.Err, c.says)
				}
				if len(proxy.Tunnels()) != 0 {
					t.Errorf("tunnels to %v", proxy.Tunnels())
				}
			})
		}
	}
}

// What a caller no longer wants is no fault of the proxy.
func TestACancelledTunnelIsNoFaultOfTheProxy(t *testing.T) {
	t.Parallel()
	proxy := pushtest.StartProxy(t, false)
	proxy.Hang()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	dialer := through(t, httpsend.ProxyConfig{URL: proxy.URL(), Timeout: time.Hour})
	_, err := dialer.DialContext(ctx, "tcp", "provider.example.com:443")
	if _, blamed := errors.AsType[*httpsend.ProxyError](err); blamed || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the caller's own deadline", err)
	}
}

// What listens there may be no proxy at all.
func TestSomethingElseThanAProxy(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{
		"a mail server": "220 mail.example.com ESMTP\r\n",
		"a long header": "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 20<<10) + "\r\n\r\n",
		"too early":     "HTTP/1.1 200 OK\r\n\r\nhello",
		"nothing":       "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Read(make([]byte, 1024)) // the request
				_, _ = io.WriteString(conn, reply)
				_ = conn.Close()
			}()
			t.Cleanup(func() {
				_ = listener.Close()
				<-done
			})
			dialer := through(t, httpsend.ProxyConfig{URL: secret.New("http://" + listener.Addr().String())})
			conn, err := dialer.DialContext(t.Context(), "tcp", "provider.example.com:443")
			got := (&httpsend.Trace{}).Classify(err)
			if conn != nil || got.Code != "proxy" || got.Class != push.Transient {
				t.Errorf("got %v, want a proxy that cannot be reached", got)
			}
		})
	}
}

func TestProxiesThatAreNone(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"proxy.example.com:3128", "socks5://proxy.example.com", "http://", "http://pacer:canary@", "http://a/b",
		"http://a?b", "http://pacer:canary@a b",
	} {
		t.Run(bad, func(t *testing.T) {
			t.Parallel()
			err := httpsend.CheckProxy(bad)
			if err == nil || strings.Contains(err.Error(), "canary") {
				t.Errorf("got %v", err)
			}
			if _, err := (httpsend.ProxyConfig{URL: secret.New(bad)}).Through(&net.Dialer{}); err == nil {
				t.Error("Through takes it")
			}
		})
	}
	for _, good := range []string{"", "http://proxy", "https://pacer:p%40ss@proxy.example.com:3128/"} {
		if err := httpsend.CheckProxy(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}
