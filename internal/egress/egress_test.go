package egress_test

import (
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/egress"
	"github.com/pacer-notify/pacer/internal/egress/egresstest"
)

func TestCheckURLAcceptsOnlyTargetsThatMayBeCalled(t *testing.T) {
	t.Parallel()
	guarded := dialer(t, egress.Config{})
	for _, good := range []string{
		"https://example.com/hook?a=b", "http://example.com:8080", "https://8.8.8.8/", "https://[2606:4700::1111]/",
		"https://xn--bcher-kva.example.com/", "http://1.2.3.4.example.com/", "http://a.test/", "http://a.local/",
		"http://a.internal/", "http://a-b.invalid.com/", "https://[64:ff9b::808:808]/",
	} {
		if err := guarded.CheckURL(good); err != nil {
			t.Errorf("%s is refused: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "example.com", "ftp://example.com/", "file:///etc/passwd", "gopher://example.com", "unix:///run/x.sock",
		"javascript:alert(1)",
		"http://", "http:///path", "http:example.com", "https://user:pass@example.com/", "http://example.com:0/",
		"http://example.com:70000/",
		"http://127.0.0.1/", "http://127.1/", "http://2130706433/", "http://0x7f.1/", "http://0x7f000001/",
		"http://0177.0.0.1/", "http://0/",
		"http://localhost/", "http://LOCALHOST./", "http://a.localhost/", "http://10.0.0.1/", "http://172.16.3.4/",
		"http://192.168.1.1/",
		"http://169.254.169.254/latest/meta-data", "http://100.64.0.1/", "http://198.18.0.1/", "http://192.0.2.1/",
		"http://224.0.0.1/",
		"http://255.255.255.255/", "http://0.0.0.0/", "http://[::1]/", "http://[::]/", "http://[::ffff:127.0.0.1]/",
		"http://[::ffff:7f00:1]/",
		"http://[fe80::1]/", "http://[fe80::1%25eth0]/", "http://[fc00::1]/", "http://[fec0::1]/", "http://[ff02::1]/",
		"http://[2001:db8::1]/",
		"http://[64:ff9b::7f00:1]/", "http://[64:ff9b:1::1]/", "http://[2002:7f00:1::]/", "http://[2001::1]/",
		"http://[::127.0.0.1]/",
		// What clouds serve their own machines: keys, scripts, names.
		"http://168.63.129.16/metadata", "http://[::ffff:168.63.129.16]/", "http://[64:ff9b::a83f:8110]/",
		"http://2822734096/", "http://169.254.170.2/", "http://169.254.0.23/", "http://169.254.42.42/",
		"http://100.100.100.200/", "http://192.0.0.192/", "http://[fd00:ec2::254]/", "http://[fd20:ce::254]/",
		"http://[fd00:42::42]/", "http://161.26.0.10/", "http://166.9.14.1/",
	} {
		if err := guarded.CheckURL(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	allowing := dialer(t, egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	for _, good := range []string{"http://127.0.0.1:9/", "http://localhost/", "http://[::ffff:127.0.0.1]/"} {
		if err := allowing.CheckURL(good); err != nil {
			t.Errorf("%s is refused although its network is allowed: %v", good, err)
		}
	}
}

func FuzzCheckURL(f *testing.F) {
	for _, seed := range []string{
		"http://0x7f.1/", "https://[::ffff:1.2.3.4]:80/x", "http://a%00b/",
		"http://1.1.1.1.:99999/",
	} {
		f.Add(seed)
	}
	guarded := dialer(f, egress.Config{})
	f.Fuzz(func(t *testing.T, raw string) {
		if guarded.CheckURL(raw) != nil {
			return
		}
		target, err := url.Parse(raw)
		if err != nil || target.Scheme != "http" && target.Scheme != "https" || target.Hostname() == "" ||
			target.User != nil {
			t.Fatalf("%q is taken", raw)
		}
		if address, err := netip.ParseAddr(target.Hostname()); err == nil &&
			(address.IsLoopback() || address.IsPrivate() ||
				address.IsLinkLocalUnicast() || address.IsMulticast() || address.IsUnspecified()) {
			t.Fatalf("%q is taken although %s is not public", raw, address)
		}
	})
}

// A host that can never be reached is refused when it is accepted and when it is dialled, wherever targets may be: the
// dialer would look these up as names, whatever address they look like.
func TestHostsThatCanNeverWorkAreRefusedByOneRule(t *testing.T) {
	t.Parallel()
	everywhere := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	guarded := dialer(t, egress.Config{Allow: everywhere, Resolver: egresstest.Resolver(func(name string) []netip.Addr {
		t.Errorf("%s is looked up", name)
		return nil
	})})
	for _, host := range []string{
		"192.168.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "1.1.1.1.", "256.1.1.1", "1.2.3.4.5", "a.7",
		"hooks.invalid", "invalid", "HOOKS.INVALID.", "a.onion", "a.alt",
	} {
		if guarded.CheckURL("http://"+host+"/") == nil {
			t.Errorf("%s is accepted", host)
		}
		_, err := guarded.DialContext(t.Context(), "tcp", host+":80")
		if _, forbidden := errors.AsType[*egress.ForbiddenError](err); !forbidden {
			t.Errorf("dial %s: %v, want a ForbiddenError", host, err)
		}
	}
}

// A name that resolves to a forbidden address is caught when it is dialled, whatever it resolved to before.
func TestDialChecksTheAddressReallyDialled(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(nil)
	t.Cleanup(server.Close)
	target := server.Listener.Addr().String()
	_, port, err := net.SplitHostPort(target)
	if err != nil {
		t.Fatal(err)
	}

	for _, address := range []string{target, net.JoinHostPort("localhost", port)} {
		conn, err := dialer(t, egress.Config{}).DialContext(t.Context(), "tcp", address)
		if err == nil {
			_ = conn.Close()
			t.Fatalf("%s was dialled", address)
		}
		if _, forbidden := errors.AsType[*egress.ForbiddenError](err); !forbidden {
			t.Errorf("dial %s: %v, want a ForbiddenError", address, err)
		}
	}
	allowing := dialer(t, egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	conn, err := allowing.DialContext(context.Background(), "tcp", target)
	if err != nil {
		t.Fatalf("dial an allowed address: %v", err)
	}
	_ = conn.Close()
}

// A name that leads to a public address when it is checked, and to the machine itself when it is dialled, gets nowhere;
// nor does one that has a good address beside a bad one.
func TestDialIsNotFooledByNamesThatMove(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(nil)
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for name, addresses := range map[string][]netip.Addr{
		"rebound": {netip.MustParseAddr("127.0.0.1")},
		"mapped":  {netip.MustParseAddr("::ffff:127.0.0.1")},
		"several": {netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			guarded := dialer(t, egress.Config{
				Resolver: egresstest.Resolver(func(string) []netip.Addr { return addresses }),
			})
			if err := guarded.CheckURL("http://" + name + ".example.test:" + port + "/"); err != nil {
				t.Errorf("%s: a name is refused before it is looked up: %v", name, err)
			}
			conn, err := guarded.DialContext(t.Context(), "tcp", net.JoinHostPort(name+".example.test", port))
			if err == nil {
				_ = conn.Close()
				t.Fatalf("%s was dialled", name)
			}
			if _, forbidden := errors.AsType[*egress.ForbiddenError](err); !forbidden {
				t.Errorf("%s: %v, want a ForbiddenError", name, err)
			}
		})
	}
}

func TestDialsByTCPOnly(t *testing.T) {
	t.Parallel()
	allowing := dialer(t, egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}})
	for _, network := range []string{"udp", "unix", "ip4:icmp", ""} {
		conn, err := allowing.DialContext(t.Context(), network, "127.0.0.1:53")
		if err == nil {
			_ = conn.Close()
		}
		if _, forbidden := errors.AsType[*egress.ForbiddenError](err); !forbidden {
			t.Errorf("%q: %v, want a ForbiddenError", network, err)
		}
	}
}

func TestNewRefusesWhatIsNoConfiguration(t *testing.T) {
	t.Parallel()
	_, err := egress.New(egress.Config{Allow: []netip.Prefix{{}}, Timeout: -1})
	if err == nil || !strings.Contains(err.Error(), "allow[0]") || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("%v, want both faults named", err)
	}
}

func dialer(tb testing.TB, cfg egress.Config) *egress.Dialer {
	tb.Helper()
	d, err := egress.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}
