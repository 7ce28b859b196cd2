package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/pacer-notify/pacer/internal/refusal"
)

// listener is an HTTP server whose address is bound before it serves, so that a taken port is refused at start.
type listener struct {
	net    net.Listener
	server *http.Server
}

// listen binds an address; with anyPort another port of its host when it can't be bound.
func listen(ctx context.Context, name, address string, anyPort bool, server *http.Server) (*listener, error) {
	var config net.ListenConfig
	bound, err := config.Listen(ctx, "tcp", address)
	if host, _, invalid := net.SplitHostPort(address); err != nil && anyPort && invalid == nil {
		bound, err = config.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return nil, refusal.New("the %s can't listen on %s: %v", name, address, err)
	}
	return newListener(bound, server), nil
}

// newListener makes a listener that gives a client the server's ReadTimeout for a request's header, as long again for
// its body, and as long again for what is left of a body that is refused. A client may stand still for seconds, as on a
// busy machine, or have a slow line.
func newListener(bound net.Listener, server *http.Server) *listener {
	server.Handler = lingering(server.Handler, server.ReadTimeout)
	return &listener{net: bound, server: server}
}

func (l *listener) addr() string {
	if l == nil {
		return ""
	}
	return l.net.Addr().String()
}

func (l *listener) serve(log *slog.Logger) {
	if err := l.server.Serve(l.net); err != nil && !errors.Is(err, http.ErrServerClosed) {
		log.Error("a listener stopped", "address", l.addr(), "error", err)
	}
}

// shutdown lets requests in flight finish for a moment.
func (l *listener) shutdown(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := l.server.Shutdown(ctx); err != nil {
		_ = l.server.Close() // what did not finish is cut off
	}
}

func (l *listener) close() error {
	if err := l.net.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
