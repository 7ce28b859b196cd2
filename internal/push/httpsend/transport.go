package httpsend

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/http2"
)

// Transport makes HTTP calls and keeps its connections.
type Transport interface {
	http.RoundTripper
	CloseIdleConnections()
}

const (
	// maxReplyHeader bounds the header of a response, in bytes.
	maxReplyHeader = 16 << 10
	// keptIdle is how many idle connections are kept per host.
	keptIdle = 256
)

// NewTransport makes a transport that speaks HTTP/2 with hosts that do. It uses no proxy. Nil roots mean the system's.
func NewTransport(roots *x509.CertPool, connections *Connections) *http.Transport {
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            connections.Dial,
		DisableCompression:     true, // against zip bombs: what is read is what was sent
		MaxIdleConns:           keptIdle,
		MaxIdleConnsPerHost:    keptIdle,
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    5 * time.Second,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		MaxResponseHeaderBytes: maxReplyHeader,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingEvery, PingTimeout: pingEvery},
	}
}

// NewClient makes a client that follows no redirect.
func NewClient(transport http.RoundTripper, timeout time.Duration) *http.Client {
	return &http.Client{
		Transport: transport, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// pingEvery is how long an HTTP/2 connection may be silent before it is asked whether it is alive, and how long the
// reply may take.
const pingEvery = 4 * time.Second

// NewHTTP2Transport makes a transport for a single provider, which all calls go to over a few connections. The standard
// library's HTTP/2 opens one connection for each call that is under way while the first connection is being made: over
// 600 where this one opens 6. Nil roots mean the system's.
//
//nolint:staticcheck // deprecated in favour of the standard library's
func NewHTTP2Transport(roots *x509.CertPool, connections *Connections) Transport {
	return &http2.Transport{
		TLSClientConfig:    &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DialTLSContext:     connections.dialTLS,
		ReadIdleTimeout:    pingEvery,
		PingTimeout:        pingEvery,
		DisableCompression: true, // against zip bombs: what is read is what was sent
		MaxHeaderListSize:  maxReplyHeader,
	}
}

// dialTLS makes a connection, TLS included.
func (c *Connections) dialTLS(ctx context.Context, network, address string, cfg *tls.Config) (net.Conn, error) {
	conn, err := c.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return Secure(ctx, conn, cfg)
}

// Secure begins TLS on a connection. When that fails, it closes the connection.
func Secure(ctx context.Context, conn net.Conn, cfg *tls.Config) (net.Conn, error) {
	secured := tls.Client(conn, cfg)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secured, nil
}
