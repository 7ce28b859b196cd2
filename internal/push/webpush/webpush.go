// Package webpush delivers to browsers over Web Push. It encrypts the message for the subscription (RFC 8291), and the
// deployment identifies itself with a VAPID key (RFC 8292). The subscription's endpoint comes from input, so it is
// dialled through package egress.
package webpush

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/pacer-notify/pacer/internal/egress"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/content"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/secret"
)

const (
	// maxPayload is how long a message may be, in bytes: once encrypted it fits into a record of 4,096.
	maxPayload = recordSize - overhead
	// life is how long push services keep a message that does not expire. It is the longest time that they all allow.
	life = 28 * 24 * time.Hour
)

// Config of a Sender. PrivateKey and Subject are required.
type Config struct {
	// PrivateKey is the VAPID key: 32 bytes in base64url. The public key, which browsers subscribe with, is computed
	// from it.
	PrivateKey secret.Secret
	// Subject is the contact for push services: an https URL or a mailto address.
	Subject string
	// GuardedConfig says which endpoints may be called.
	httpsend.GuardedConfig
}

// Checker checks notifications for browsers. CheckURL reports whether an endpoint may be called.
type Checker struct{ CheckURL func(string) error }

// Sender delivers over Web Push.
type Sender struct {
	Checker
	client *httpsend.Guarded
	vapid  *vapid
}

// New makes a Sender. It fails when the key is not valid, and does not show it.
func New(cfg Config) (*Sender, error) {
	vapid, err := newVAPID(cfg.PrivateKey, cfg.Subject)
	if err != nil {
		return nil, err
	}
	client, err := httpsend.NewGuarded(cfg.GuardedConfig)
	if err != nil {
		return nil, err
	}
	return &Sender{Checker: Checker{client.CheckURL}, client: client, vapid: vapid}, nil
}

// PublicKey is the applicationServerKey that browsers have to subscribe with.
func (s *Sender) PublicKey() string { return s.vapid.public }

// Close ends all connections, and with them the calls in flight. Later calls fail.
func (s *Sender) Close() error {
	s.client.Close()
	return nil
}

// CheckContent implements [push.Checker].
func (Checker) CheckContent(n *notification.Notification) error {
	_, err := message(n)
	return err
}

// message makes the message for the service worker: id, title, body, tag and data, and over it the override.
func message(n *notification.Notification) ([]byte, error) {
	message := map[string]any{"id": n.ID, "title": n.Title, "body": n.Body, "tag": content.CollapseID(n)}
	if len(n.Data) > 0 {
		message["data"] = n.Data
	}
	if err := content.Merge(message, n.Override); err != nil {
		return nil, err
	}
	return content.Encode("Web Push", message, maxPayload)
}

// Send implements [push.Sender].
func (s *Sender) Send(ctx context.Context, m push.Message) error {
	trace := &httpsend.Trace{}
	if err := ctx.Err(); err != nil {
		return trace.Classify(err)
	}
	message, err := message(m.Notification)
	if err != nil {
		return &push.Error{Class: push.Permanent, Code: "bad_request", Unsent: true, Err: err}
	}
	to, err := s.subscription(m.To)
	if _, forbidden := errors.AsType[*egress.ForbiddenError](err); forbidden {
		return &push.Error{Class: push.Permanent, Code: "forbidden_address", Unsent: true, Err: err}
	}
	if err != nil {
		return &push.Error{Class: push.Permanent, Code: "bad_request", Unsent: true, Err: err}
	}
	return s.post(ctx, trace, m, to, message)
}

// post makes one call.
func (s *Sender) post(ctx context.Context, trace *httpsend.Trace, m push.Message, to *subscription,
	message []byte,
) error {
	body, err := to.encrypt(message)
	if err != nil {
		return &push.Error{Class: push.Permanent, Code: "encryption", Unsent: true, Err: err}
	}
	request, err := http.NewRequestWithContext(trace.Attach(ctx), http.MethodPost, to.endpoint, bytes.NewReader(body))
	if err != nil {
		return &push.Error{Class: push.Permanent, Code: "bad_request", Unsent: true, Err: err}
	}
	authorization, err := s.vapid.authorization(to.origin, time.Now())
	if err != nil {
		return &push.Error{Class: push.CredentialsRefused, Code: "signature", Unsent: true, Err: err}
	}
	request.Header.Set("Authorization", authorization)
	describe(request.Header, m)
	response, err := httpsend.Do(s.client.Client, request)
	if err != nil {
		return trace.Classify(err)
	}
	defer response.Body.Close()
	text := httpsend.Finish(ctx, response, push.ReplyRead)
	failure := classify(response, text)
	if failure == nil {
		return nil
	}
	failure.Reply = push.Reply([]byte(text), m.Notification, to.endpoint, authorization)
	if failure.Class == push.CredentialsRefused {
		s.vapid.forget(to.origin)
	}
	return failure
}

// describe sets the headers of RFC 8030.
func describe(header http.Header, m push.Message) {
	keep := life
	if !m.ExpiresAt.IsZero() {
		keep = min(max(time.Until(m.ExpiresAt), 0), life)
	}
	urgency := "high"
	switch m.Priority {
	case notification.PriorityNormal:
		urgency = "normal"
	case notification.PriorityLow:
		urgency = "low"
	case notification.PriorityCritical, notification.PriorityHigh:
	}
	if m.Passive {
		urgency = "low"
	}
	header.Set("Content-Encoding", "aes128gcm")
	header.Set("Content-Type", "application/octet-stream")
	header.Set("TTL", strconv.Itoa(int(keep/time.Second)))
	header.Set("Topic", content.Digest(content.CollapseID(m.Notification)))
	header.Set("Urgency", urgency)
}
