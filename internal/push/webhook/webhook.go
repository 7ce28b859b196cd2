// Package webhook delivers notifications as HTTP requests, signed as Standard Webhooks when there is a secret. Targets come
// from input: they are dialled through package egress, redirects are not followed, and little of the answer is read.
package webhook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/pacer-notify/pacer/internal/egress"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/secret"
)

const (
	// maxReply is how much of an answer is read.
	maxReply = 64 << 10
	// maxReplyHeader bounds the answer's header.
	maxReplyHeader = 16 << 10
)

// Config of a Sender.
type Config struct {
	// Secret signs deliveries, in the form whsec_…. Defaults to none: they are not signed.
	Secret secret.Secret
	// Allow are networks that targets may be in although not public. Defaults to none.
	Allow []netip.Prefix
	// Timeout bounds a delivery. Defaults to 10 s.
	Timeout time.Duration
	// Idle is how many idle connections are kept per host. Defaults to 256.
	Idle int
	// Resolver of the targets' names. Defaults to the system's.
	Resolver *net.Resolver
}

// Sender delivers webhooks.
type Sender struct {
	client      *http.Client
	transport   *http.Transport
	dialer      *egress.Dialer
	connections *connections
	signer      *standardwebhooks.Webhook
}

// New makes a Sender. It fails on a secret that is none.
func New(cfg Config) (*Sender, error) {
	dialer, err := egress.New(egress.Config{Allow: cfg.Allow, Resolver: cfg.Resolver})
	if err != nil {
		return nil, err
	}
	idle := cmp.Or(cfg.Idle, 256)
	connections := newConnections(dialer)
	s := &Sender{
		dialer:      dialer,
		connections: connections,
		transport: &http.Transport{
			Proxy:                  nil, // a proxy would dial for us, unguarded
			DialContext:            connections.dial,
			DisableCompression:     true, // what is read is what was sent: no bomb
			MaxIdleConns:           4 * idle,
			MaxIdleConnsPerHost:    idle,
			IdleConnTimeout:        90 * time.Second,
			TLSHandshakeTimeout:    5 * time.Second,
			MaxResponseHeaderBytes: maxReplyHeader,
			ForceAttemptHTTP2:      true,
		},
	}
	s.client = &http.Client{
		Timeout:       cmp.Or(cfg.Timeout, 10*time.Second),
		Transport:     s.transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if !cfg.Secret.IsZero() {
		signer, err := standardwebhooks.NewWebhook(cfg.Secret.Reveal())
		if err != nil {
			return nil, fmt.Errorf("read the webhook secret: it must be whsec_ and base64")
		}
		s.signer = signer
	}
	return s, nil
}

// Close ends all connections, and with them the calls in flight. Later calls fail.
func (s *Sender) Close() error {
	s.client.CloseIdleConnections()
	s.connections.close()
	return nil
}

// CheckTarget implements [push.Sender].
func (s *Sender) CheckTarget(to string) error { return s.dialer.CheckURL(to) }

// body is what a target receives.
type body struct {
	ID        string          `json:"id"`
	UserID    string          `json:"user_id"`
	Category  string          `json:"category"`
	Title     string          `json:"title"`
	Body      string          `json:"body"`
	Data      json.RawMessage `json:"data"`
	CreatedAt time.Time       `json:"created_at"`
}

// Send implements [push.Sender].
func (s *Sender) Send(ctx context.Context, m push.Message) error {
	trace := &tracer{}
	if err := ctx.Err(); err != nil {
		return trace.classify(err) // HTTP/2 may send on an open connection before it looks
	}
	request, err := s.request(trace.attach(ctx), m)
	switch {
	case isForbidden(err):
		return &push.Error{Class: push.Permanent, Code: "forbidden_address", Unsent: true, Err: err}
	case err != nil:
		return &push.Error{Class: push.Permanent, Code: "bad_request", Unsent: true, Err: err}
	}
	response, err := s.client.Do(request)
	if err != nil {
		return trace.classify(err)
	}
	defer response.Body.Close()
	// Reading the answer to its end lets the connection be used again; what it says beyond its status is not wanted.
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxReply))
	return judge(response)
}

func (s *Sender) request(ctx context.Context, m push.Message) (*http.Request, error) {
	// A target that was accepted under another configuration, or by nobody, must not be tried again and again.
	if err := s.dialer.CheckURL(m.To); err != nil {
		return nil, fmt.Errorf("the target %w", err)
	}
	data := m.Data
	if len(data) == 0 {
		data = nil // an empty RawMessage is no JSON; none is null
	}
	payload, err := json.Marshal(body{
		ID: m.ID, UserID: m.UserID, Category: m.Category, Title: m.Title, Body: m.Body, Data: data, CreatedAt: m.CreatedAt.UTC(),
	})
	if err != nil {
		return nil, errors.New("encode the webhook's body: the data is no JSON, or the time of creation no date") // the cause quotes the data
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.To, bytes.NewReader(payload))
	if err != nil {
		return nil, errors.New("the target is no URL") // the cause repeats the URL
	}
	now := time.Now()
	header := request.Header
	header.Set("Content-Type", "application/json")
	header.Set("User-Agent", "pacer")
	header.Set("Webhook-Id", m.ID)
	header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	header.Set("Pacer-Attempt", strconv.Itoa(m.Attempt))
	header.Set("Pacer-Admitted-At", strconv.FormatInt(m.AdmittedAt.UnixMicro(), 10))
	if s.signer != nil {
		signature, err := s.signer.Sign(m.ID, now, payload)
		if err != nil {
			return nil, fmt.Errorf("sign the webhook: %w", err)
		}
		header.Set("Webhook-Signature", signature)
	}
	return request, nil
}
