package pushtest

import (
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"
)

// Server is a fake over HTTP with TLS. It speaks HTTP/2, and HTTP/1.1 with callers that can't.
type Server struct{ *httptest.Server }

// StartServer starts a fake. The provider is told of its connections.
func StartServer(tb testing.TB, p *Provider, handler http.HandlerFunc) *Server {
	tb.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			p.Contact()
		}
	}
	server.StartTLS()
	tb.Cleanup(server.Close)
	return &Server{server}
}

// Roots vouch for the server's certificate, which is for 127.0.0.1 and example.com.
func (s *Server) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return pool
}

// Unplug ends the listener and all connections.
func (s *Server) Unplug() {
	_ = s.Listener.Close()
	s.CloseClientConnections()
}

// Respond responds to a call as the provider says. statuses has the channel's status for each kind. A kind without a
// status hangs up.
func Respond(p *Provider, w http.ResponseWriter, r *http.Request, with Response, statuses map[Kind]int, body string) {
	status, ok := statuses[with.Kind]
	switch {
	case with.Kind == Hangs:
		select {
		case <-r.Context().Done():
		case <-p.Over():
		}
		panic(http.ErrAbortHandler)
	case !ok:
		panic(http.ErrAbortHandler)
	}
	if with.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(with.RetryAfter/time.Second)))
	}
	w.WriteHeader(status)
	if status != http.StatusNoContent {
		_, _ = fmt.Fprint(w, body)
	}
}

// Cut responds with the beginning of a body, and ends the call before the rest.
func Cut(status int, beginning string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, beginning)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}
