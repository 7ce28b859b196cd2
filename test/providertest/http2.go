package providertest

import (
	"context"
	"crypto/tls"
	"net/http"
	"sync"

	"golang.org/x/net/http2"
)

// http2Conn is a connection over HTTP/2. Its server begins with SETTINGS, which no other frame may precede (RFC 9113,
// 3.4), but may handle a call before they are written.
type http2Conn struct {
	*tls.Conn

	mu      sync.Mutex
	begun   bool // SETTINGS are written
	leaving bool // GOAWAY is to follow them
}

// serveHTTP2 serves a connection over HTTP/2. It is what [http.Server.TLSNextProto] wants for "h2".
func serveHTTP2(server *http.Server, conn *tls.Conn, handler http.Handler) {
	c := &http2Conn{Conn: conn}
	//nolint:staticcheck // its successor, http.Server, takes no connection but a *tls.Conn
	new(http2.Server).ServeConn(c, &http2.ServeConnOpts{
		Context: context.WithValue(context.Background(), connKey{}, c), BaseConfig: server, Handler: handler,
	})
}

// Write writes what the server has to say: SETTINGS first.
func (c *http2Conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.Conn.Write(p)
	if c.begun = true; c.leaving {
		c.leaving = false
		c.writeGoAway()
	}
	return n, err
}

// goAway tells the caller that none of its calls was processed, as soon as it may be told.
func (c *http2Conn) goAway() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.begun {
		c.leaving = true
		return
	}
	c.writeGoAway()
}

func (c *http2Conn) writeGoAway() {
	_ = http2.NewFramer(c.Conn, nil).WriteGoAway(0, http2.ErrCodeNo, nil) // a caller that is gone needs none
}
