package providertest

import (
	"crypto/tls"
	"net"
)

// HTTP2Conn is the provider's side of a connection over HTTP/2.
type HTTP2Conn = http2Conn

// NewHTTP2Conn returns one whose server has not begun.
func NewHTTP2Conn(conn net.Conn) *HTTP2Conn {
	return &http2Conn{Conn: tls.Server(conn, &tls.Config{
		Certificates: []tls.Certificate{certificate()}, MinVersion: tls.VersionTLS12,
	})}
}

// GoAway tells the caller that none of its calls was processed.
func (c *HTTP2Conn) GoAway() { c.goAway() }
