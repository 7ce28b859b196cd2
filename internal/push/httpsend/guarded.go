package httpsend

import (
	"cmp"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/pacer-notify/pacer/internal/egress"
)

// GuardedConfig says what a [Guarded] client may do.
type GuardedConfig struct {
	// Allow are networks that targets may be in although they are not public. Defaults to none.
	Allow []netip.Prefix
	// Timeout bounds a call whose context does not end before. Defaults to a minute.
	Timeout time.Duration
	// Ping is how long an HTTP/2 connection may be silent before it is asked whether it is alive, and how long the
	// reply to that may take. Both together are shorter than a call, so that calls do not go on failing on a dead
	// connection. Defaults to 4 s.
	Ping time.Duration
	// Idle is how many idle connections are kept per host. Defaults to 256.
	Idle int
	// Resolver of the targets' names. Defaults to the system's.
	Resolver *net.Resolver
	// Roots are the authorities that may vouch for targets. Defaults to the system's.
	Roots *x509.CertPool
}

// Guarded calls targets that come from input. It dials them through package egress and follows no redirects. It uses no
// proxy, since a proxy would do the dialling.
type Guarded struct {
	*http.Client
	dialer      *egress.Dialer
	connections *Connections
}

// NewGuarded makes a client.
func NewGuarded(cfg GuardedConfig) (*Guarded, error) {
	dialer, err := egress.New(egress.Config{Allow: cfg.Allow, Resolver: cfg.Resolver})
	if err != nil {
		return nil, err
	}
	idle, ping := cmp.Or(cfg.Idle, keptIdle), cmp.Or(cfg.Ping, pingEvery)
	connections := NewConnections(dialer)
	transport := NewTransport(cfg.Roots, connections)
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 4*idle, idle
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: ping, PingTimeout: ping}
	return &Guarded{
		dialer: dialer, connections: connections, Client: NewClient(transport, cmp.Or(cfg.Timeout, time.Minute)),
	}, nil
}

// CheckURL reports whether a target may be called, as far as that shows without looking up its address.
func (g *Guarded) CheckURL(to string) error { return g.dialer.CheckURL(to) }

// Close ends all connections, and with them the calls in flight. Later calls fail.
func (g *Guarded) Close() {
	g.CloseIdleConnections()
	g.connections.Close()
}
