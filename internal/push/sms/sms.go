// Package sms sends text messages over Twilio, or over a gateway with its API. Twilio has no idempotency key for
// messages: a repeat after an attempt without a response may arrive twice.
package sms

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/secret"
)

// endpoint is Twilio's base URL.
const endpoint = "https://api.twilio.com"

// Config of a Sender. Account, Token and From are required.
type Config struct {
	// Account is the account's SID.
	Account string
	// Token is the account's token, or an API key as SID:SECRET.
	Token secret.Secret
	// From is a number, a short code, a name, or the SID of a messaging service.
	From string
	// Endpoint is the gateway's base URL. Defaults to Twilio's.
	Endpoint string
	// Segments are how many a message may have. Default to no limit.
	Segments int
	// Timeout bounds a delivery whose context does not end before. Defaults to a minute.
	Timeout time.Duration
	// Roots are the authorities that may vouch for the gateway. Defaults to the system's.
	Roots *x509.CertPool
	// Dialer makes the connections. Defaults to the standard library's.
	Dialer httpsend.Dialer
}

// Checker checks notifications for text messages. Segments are how many a message may have; 0 is any number.
type Checker struct{ Segments int }

// Sender sends text messages.
type Sender struct {
	Checker
	url, from   string
	user        string
	password    secret.Secret
	client      *http.Client
	connections *httpsend.Connections
}

// New makes a Sender. It fails on settings that can't be right. No error shows the token.
func New(cfg Config) (*Sender, error) {
	if err := (Settings{Account: cfg.Account, From: cfg.From, Endpoint: cfg.Endpoint}).Check(); err != nil {
		return nil, err
	}
	if cfg.Account == "" || cfg.Token.IsZero() || cfg.From == "" {
		return nil, errors.New("the account, its token and the sender are required")
	}
	if cfg.Dialer == nil {
		cfg.Dialer = &net.Dialer{Timeout: 5 * time.Second}
	}
	connections := httpsend.NewConnections(cfg.Dialer)
	base := strings.TrimSuffix(cmp.Or(cfg.Endpoint, endpoint), "/")
	s := &Sender{
		Checker: Checker{cfg.Segments}, connections: connections, from: cfg.From,
		url:  base + "/2010-04-01/Accounts/" + cfg.Account + "/Messages.json",
		user: cfg.Account, password: cfg.Token,
		client: httpsend.NewClient(httpsend.NewTransport(cfg.Roots, connections), cmp.Or(cfg.Timeout, time.Minute)),
	}
	if user, password, isKey := strings.Cut(cfg.Token.Reveal(), ":"); isKey {
		s.user, s.password = user, secret.New(password)
	}
	return s, nil
}

// Close ends all connections, and with them the calls in flight. Later calls fail.
func (s *Sender) Close() error {
	s.client.CloseIdleConnections()
	s.connections.Close()
	return nil
}

// CheckContent implements [push.Checker].
func (c Checker) CheckContent(n *notification.Notification) error {
	_, err := c.message(n, time.Now())
	return err
}

// Send implements [push.Sender].
func (s *Sender) Send(ctx context.Context, m push.Message) error {
	return httpsend.Call(ctx, s.client, func(ctx context.Context) (*http.Request, error) {
		return s.request(ctx, m.Notification)
	}, func(response *http.Response) *push.Error {
		// Twilio's reply repeats the text, of up to 1,600 characters, before it says what became of the message.
		text, cut := httpsend.FinishJSON(ctx, response)
		failure := classify(response, text, cut)
		if failure != nil {
			failure.Reply = push.Reply([]byte(text), m.Notification, s.password.Reveal())
		}
		return failure
	})
}

// request makes the request. Twilio ignores the Idempotency-Key; another gateway may drop repeats by it.
func (s *Sender) request(ctx context.Context, n *notification.Notification) (*http.Request, error) {
	// A target may have been accepted under another configuration, or without a check. It must not be retried for ever.
	if err := s.CheckTarget(n.To); err != nil {
		return nil, fmt.Errorf("the target %w", err)
	}
	values, err := s.message(n, time.Now())
	if err != nil {
		return nil, err
	}
	values.Set("To", n.To)
	if service.MatchString(s.from) {
		values.Set("MessagingServiceSid", s.from)
	} else {
		values.Set("From", s.from)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(values.Encode()))
	if err != nil {
		return nil, errors.New("the endpoint is not a URL")
	}
	request.SetBasicAuth(s.user, s.password.Reveal())
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("User-Agent", "pacer")
	request.Header.Set("Idempotency-Key", n.ID)
	return request, nil
}
