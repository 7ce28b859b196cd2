package httpsend

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
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
	// handshakeTimeout bounds the TLS handshake of a connection.
	handshakeTimeout = 5 * time.Second
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
		TLSHandshakeTimeout:    handshakeTimeout,
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

// dialTLS makes a connection, TLS included. All calls wait for the connection that the first one makes, and none
// of them looks at its own context meanwhile.
func (c *Connections) dialTLS(ctx context.Context, network, address string, cfg *tls.Config) (net.Conn, error) {
	conn, err := c.Dial(ctx, network, address)
	if err != nil {
		return nil, forAll(ctx, err)
	}
	bounded, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	secured, err := Secure(bounded, conn, cfg)
	if err != nil {
		return nil, forAll(ctx, err)
	}
	return secured, nil
}

// forAll makes the error of a connection one for all calls that wait for it, unless it is about the context of the
// call that made the connection.
func forAll(ctx context.Context, err error) error {
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return &lateError{err}
	}
	return err
}

// lateError says that a host took too long. It hides that a context ended within: the library would take it for
// the one of the first call, and the others would make the connection again one after another, each as slowly. Also
// those whose time has passed would wait for that.
type lateError struct{ err error }

// Error implements error.
func (e *lateError) Error() string { return e.err.Error() }

// Timeout implements the method of [net.Error].
func (*lateError) Timeout() bool { return true }

// As finds what it hides, for [errors.As].
func (e *lateError) As(target any) bool { return errors.As(e.err, target) }

// Secure begins TLS on a connection. When that fails, it closes the connection.
func Secure(ctx context.Context, conn net.Conn, cfg *tls.Config) (net.Conn, error) {
	secured := tls.Client(conn, cfg)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secured, nil
}
