// Package apns delivers to Apple devices over the Apple Push Notification service. The credential is a token. apns-id
// and apns-collapse-id are made from the notification, so a repeat replaces the message that it repeats.
package apns

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/sideshow/apns2"
	"github.com/sideshow/apns2/token"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/secret"
)

// The hosts of the service.
const (
	Production = apns2.HostProduction
	Sandbox    = apns2.HostDevelopment
)

// Config of a Sender. Key, KeyID, TeamID and Topic are required.
type Config struct {
	// Key is the signing key that Apple issued: the text of the .p8 file.
	Key secret.Secret
	// KeyID and TeamID are ten characters each, as Apple shows them.
	KeyID, TeamID string
	// Topic is the app's bundle id. An override may name another.
	Topic string
	// Host is the service's base URL. Defaults to Production.
	Host string
	// Timeout bounds a delivery whose context does not end before. Defaults to a minute.
	Timeout time.Duration
	// Roots are the authorities that may vouch for the host. Defaults to the system's.
	Roots *x509.CertPool
	// Dialer makes the connections. Defaults to the standard library's.
	Dialer httpsend.Dialer
	// Proxy is what the service is called through. Defaults to none.
	Proxy httpsend.ProxyConfig
}

// Checker checks notifications for Apple devices. Topic is the app's bundle id.
type Checker struct{ Topic string }

// Sender delivers to Apple devices.
type Sender struct {
	Checker
	cfg         Config
	transport   httpsend.Transport
	connections *httpsend.Connections
	// token is replaced when the service says that it has expired.
	token atomic.Pointer[token.Token]
}

// New makes a Sender. It fails on credentials that can't be right. No error shows them.
func New(cfg Config) (*Sender, error) {
	key, err := token.AuthKeyFromBytes([]byte(cfg.Key.Reveal()))
	if err != nil {
		return nil, errors.New("the key must be the text of a .p8 file: a PEM block with an ECDSA key in PKCS #8")
	}
	for _, id := range []struct{ name, value string }{{"key id", cfg.KeyID}, {"team id", cfg.TeamID}} {
		if len(id.value) != 10 || strings.Trim(id.value, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
			return nil, fmt.Errorf("the %s must be ten capital letters and digits", id.name)
		}
	}
	if cfg.Topic == "" {
		return nil, errors.New("the topic, which is the app's bundle id, is required")
	}
	cfg.Host, cfg.Timeout = cmp.Or(cfg.Host, Production), cmp.Or(cfg.Timeout, time.Minute)
	if cfg.Dialer == nil {
		cfg.Dialer = &net.Dialer{Timeout: 5 * time.Second}
	}
	if cfg.Dialer, err = cfg.Proxy.Through(cfg.Dialer); err != nil {
		return nil, err
	}
	s := &Sender{Checker: Checker{cfg.Topic}, cfg: cfg, connections: httpsend.NewConnections(cfg.Dialer)}
	s.transport = httpsend.NewHTTP2Transport(cfg.Roots, s.connections)
	s.token.Store(&token.Token{AuthKey: key, KeyID: cfg.KeyID, TeamID: cfg.TeamID})
	if _, err := s.token.Load().Generate(); err != nil {
		return nil, errors.New("the key can't sign: it must be on the curve P-256")
	}
	return s, nil
}

// Close ends all connections, and with them the calls in flight. Later calls fail.
func (s *Sender) Close() error {
	s.connections.Close()
	s.transport.CloseIdleConnections()
	return nil
}

// CheckTarget implements [push.Checker]. A device token is hexadecimal.
func (Checker) CheckTarget(to string) error {
	if len(to) < 64 || len(to) > 200 || len(to)%2 != 0 || strings.Trim(to, "0123456789abcdefABCDEF") != "" {
		return errors.New("must be a device token: 64 to 200 hexadecimal digits")
	}
	return nil
}

// CheckContent implements [push.Checker].
func (c Checker) CheckContent(n *notification.Notification) error {
	_, err := c.message(n, false)
	return err
}

// Send implements [push.Sender].
func (s *Sender) Send(ctx context.Context, m push.Message) error {
	trace := &httpsend.Trace{}
	if err := ctx.Err(); err != nil {
		return trace.Classify(err)
	}
	message, err := s.message(m.Notification, m.Passive)
	if err == nil {
		err = s.CheckTarget(m.To)
	}
	if err != nil {
		return &push.Error{Class: push.Permanent, Code: "bad_request", Unsent: true, Err: err}
	}
	used := s.token.Load()
	failure := s.post(ctx, trace, m.Notification, message, used)
	if failure != nil && failure.Code == expiredToken {
		// Only the token was refused. So nothing was sent, and the call is made once more with a new token.
		failure = s.post(ctx, trace, m.Notification, message, s.renew(used))
	}
	if failure == nil {
		return nil
	}
	return failure
}

// renew replaces a token that has expired, unless another call has done so.
func (s *Sender) renew(used *token.Token) *token.Token {
	fresh := &token.Token{AuthKey: used.AuthKey, KeyID: used.KeyID, TeamID: used.TeamID}
	if s.token.CompareAndSwap(used, fresh) {
		return fresh
	}
	return s.token.Load()
}

// identity makes the UUID that the service expects: the notification's id if it is a UUID, else one made from it.
func identity(id string) string {
	if parsed, err := uuid.Parse(id); err == nil {
		return parsed.String()
	}
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("pacer:"+id)).String()
}
