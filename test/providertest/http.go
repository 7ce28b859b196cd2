package providertest

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// HTTPConfig says how a provider is called over HTTP.
type HTTPConfig struct {
	// Plain is without TLS, and so HTTP/1.1. Otherwise the provider speaks HTTP/2 and HTTP/1.1.
	Plain bool
	// Address to listen on. Defaults to a free port of 127.0.0.1.
	Address string
	// Target finds the target of a request. Defaults to host and path.
	Target func(r *http.Request, body []byte) string
}

// HTTP is a provider over HTTP.
type HTTP struct {
	*Provider
	// URL of the server, without a path.
	URL string

	target func(*http.Request, []byte) string
	server *httptest.Server
}

// connKey is where the context of a request holds its connection.
type connKey struct{}

// StartHTTP starts a provider that is called over HTTP. It ends with the test.
func StartHTTP(tb testing.TB, cfg HTTPConfig, script ...Rule) *HTTP {
	tb.Helper()
	s := &HTTP{Provider: newProvider(script), target: cfg.Target}
	if s.target == nil {
		s.target = func(r *http.Request, _ []byte) string { return r.Host + r.URL.Path }
	}
	s.server = httptest.NewUnstartedServer(s)
	if cfg.Address != "" {
		_ = s.server.Listener.Close() // of a free port, which is not wanted
		s.server.Listener = listen(tb, cfg.Address)
	}
	s.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.server.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, conn)
	}
	if cfg.Plain {
		s.server.Start()
	} else {
		s.server.EnableHTTP2 = true
		s.server.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": serveHTTP2}
		s.server.StartTLS()
	}
	s.URL = s.server.URL
	tb.Cleanup(func() {
		close(s.over)
		s.server.Close()
	})
	return s
}

// listen listens on an address until the test ends.
func listen(tb testing.TB, address string) net.Listener {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", address)
	if err != nil {
		tb.Fatal(err)
	}
	return listener
}

// Address is where it listens.
func (s *HTTP) Address() string { return s.server.Listener.Addr().String() }

// Unplug ends the listener and all connections: from then on connections are refused.
func (s *HTTP) Unplug() {
	_ = s.server.Listener.Close()
	s.server.CloseClientConnections()
}

// ServeHTTP implements [http.Handler].
func (s *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	reply := s.respond(Call{Target: s.target(r, body), Proto: r.Proto, Header: r.Header, Body: body})
	gone := r.Context().Done()
	if !s.wait(reply.Wait, gone) {
		panic(http.ErrAbortHandler)
	}
	if reply.End == Keeps || reply.End == Leaves || reply.End == Drips {
		writeReply(w, reply)
		if reply.End == Drips {
			s.drip(w, gone)
		}
		return
	}
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	if end(conn, reply.End) {
		select {
		case <-gone:
		case <-s.over:
		}
	}
	panic(http.ErrAbortHandler)
}

func writeReply(w http.ResponseWriter, reply Reply) {
	for name, value := range reply.Header {
		w.Header().Set(name, value)
	}
	if reply.End == Leaves {
		w.Header().Set("Connection", "close") // over HTTP/2, the server makes GOAWAY of it
	}
	if reply.Status != 0 {
		w.WriteHeader(reply.Status)
	}
	if reply.Body != "" {
		_, _ = io.WriteString(w, reply.Body) // an error means that the caller is gone
	}
}

// drip writes byte after byte: blanks, which mean nothing in JSON.
func (s *HTTP) drip(w http.ResponseWriter, gone <-chan struct{}) {
	for s.wait(dripEvery, gone) {
		if _, err := io.WriteString(w, " "); err != nil || http.NewResponseController(w).Flush() != nil {
			return
		}
	}
}

// dripEvery is how long a provider that drips waits between two bytes.
const dripEvery = 50 * time.Millisecond

// overTLS is what a connection over TLS can do besides, whatever version of HTTP it has.
type overTLS interface {
	NetConn() net.Conn
	CloseWrite() error
}

// end does to a connection what an End says, and reports whether the caller is waited for.
func end(conn net.Conn, how End) (wait bool) {
	tcp, _ := conn.(*net.TCPConn)
	secured, isTLS := conn.(overTLS)
	if isTLS {
		tcp, _ = secured.NetConn().(*net.TCPConn)
	}
	// What fails here has ended already.
	switch how {
	case HangsUp:
		_ = conn.Close()
	case Resets:
		_ = tcp.SetLinger(0)
		_ = tcp.Close()
	case HalfCloses:
		if isTLS {
			_ = secured.CloseWrite()
		}
		_ = tcp.CloseWrite()
		return true
	case GoesAway:
		if c, isHTTP2 := conn.(*http2Conn); isHTTP2 {
			c.goAway()
			return true
		}
		_ = conn.Close()
	case Hangs:
		return true
	case Keeps, Leaves, Drips, Aborts:
	}
	return false
}
