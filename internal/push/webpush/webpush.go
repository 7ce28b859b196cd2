// Package webpush delivers to browsers over Web Push: the message is encrypted for the subscription (RFC 8291) and the
// deployment identifies itself with a VAPID key (RFC 8292). The subscription's endpoint comes from input: it is dialled
// through package egress.
package webpush

import (
	"context"
	"crypto/ecdh"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/mail"
	"net/url"
	"strings"
	"time"

	library "github.com/SherClockHolmes/webpush-go"

	"github.com/pacer-notify/pacer/internal/egress"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/content"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/secret"
)

const (
	// maxPayload is how long a message may be, in bytes, so that it fits into a record of 4,096 once encrypted.
	maxPayload = 3992
	// maxReply is how much of an answer is read.
	maxReply = 64 << 10
	// life is how long push services keep a message that does not expire: the longest that they all allow.
	life = 28 * 24 * time.Hour
)

// Config of a Sender. PrivateKey and Subject are required.
type Config struct {
	// PrivateKey is the VAPID key: 32 bytes in base64url. The public key, which browsers subscribe with, follows from it.
	PrivateKey secret.Secret
	// Subject is whom push services can ask about the deployment: an https URL or a mailto address.
	Subject string
	// GuardedConfig says which endpoints may be called.
	httpsend.GuardedConfig
}

// Checker looks at notifications for browsers. CheckURL tells whether an endpoint may be called.
type Checker struct{ CheckURL func(string) error }

// Sender delivers over Web Push.
type Sender struct {
	Checker
	client  *httpsend.Guarded
	private secret.Secret
	public  string
	subject string
}

// New makes a Sender. It fails on a key that is none, without showing it.
func New(cfg Config) (*Sender, error) {
	raw, err := decode(cfg.PrivateKey.Reveal())
	if err != nil {
		return nil, errors.New("the private key must be 32 bytes in base64url")
	}
	key, err := ecdh.P256().NewPrivateKey(raw)
	if err != nil {
		return nil, errors.New("the private key must be a key of the curve P-256: 32 bytes in base64url")
	}
	subject, err := readSubject(cfg.Subject)
	if err != nil {
		return nil, err
	}
	client, err := httpsend.NewGuarded(cfg.GuardedConfig)
	if err != nil {
		return nil, err
	}
	return &Sender{
		Checker: Checker{client.CheckURL}, client: client, subject: subject,
		private: secret.New(base64.RawURLEncoding.EncodeToString(raw)),
		public:  base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes()),
	}, nil
}

// readSubject gives the subject in the form that the library wants: it puts mailto: before all that is no URL.
func readSubject(subject string) (string, error) {
	if address, ok := strings.CutPrefix(subject, "mailto:"); ok {
		if _, err := mail.ParseAddress(address); err == nil {
			return address, nil
		}
	}
	if u, err := url.Parse(subject); err == nil && u.Scheme == "https" && u.Host != "" {
		return subject, nil
	}
	return "", errors.New("the subject must be an https URL or a mailto: address of who runs this deployment")
}

// PublicKey is what browsers have to subscribe with, as applicationServerKey.
func (s *Sender) PublicKey() string { return s.public }

// Close ends all connections, and with them the calls in flight. Later calls fail.
func (s *Sender) Close() error {
	s.client.Close()
	return nil
}

// decode reads base64 in any of the forms that browsers and tools give keys in.
func decode(text string) ([]byte, error) {
	return base64.RawURLEncoding.DecodeString(strings.TrimRight(strings.NewReplacer("+", "-", "/", "_").Replace(text), "="))
}

// CheckTarget implements [push.Checker]: a target is a subscription, as PushSubscription.toJSON gives it.
func (c Checker) CheckTarget(to string) error {
	_, err := c.subscription(to)
	return err
}

// subscription reads a target. Its errors do not repeat it: who knows an endpoint may send to it.
func (c Checker) subscription(to string) (*library.Subscription, error) {
	var subscription library.Subscription
	if err := json.Unmarshal([]byte(to), &subscription); err != nil {
		return nil, errors.New(`must be a subscription: {"endpoint":"https://…","keys":{"p256dh":"…","auth":"…"}}`)
	}
	endpoint, err := url.Parse(subscription.Endpoint)
	if err != nil || endpoint.Scheme != "https" {
		return nil, errors.New("endpoint: must be an https URL")
	}
	if err := c.CheckURL(subscription.Endpoint); err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	public, err := decode(subscription.Keys.P256dh)
	if err == nil {
		_, err = ecdh.P256().NewPublicKey(public)
	}
	if err != nil {
		return nil, errors.New("keys.p256dh: must be a point of the curve P-256: 65 bytes in base64url")
	}
	if auth, err := decode(subscription.Keys.Auth); err != nil || len(auth) != 16 {
		return nil, errors.New("keys.auth: must be 16 bytes in base64url")
	}
	return &subscription, nil
}

// CheckContent implements [push.Checker].
func (Checker) CheckContent(n *notification.Notification) error {
	_, err := message(n)
	return err
}

// message makes what the service worker gets: id, title, body, tag and data, and the override laid over it.
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
	response, err := library.SendNotificationWithContext(trace.Attach(ctx), message, to, s.options(m.Notification))
	if err != nil {
		return trace.Classify(err)
	}
	defer response.Body.Close()
	// Reading the answer to its end lets the connection be used again; what it says beyond its status is not wanted.
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxReply))
	return judge(response)
}

func (s *Sender) options(n *notification.Notification) *library.Options {
	keep := life
	if !n.ExpiresAt.IsZero() {
		keep = min(max(time.Until(n.ExpiresAt), 0), life)
	}
	urgency := library.UrgencyHigh
	switch n.Priority {
	case notification.PriorityNormal:
		urgency = library.UrgencyNormal
	case notification.PriorityLow:
		urgency = library.UrgencyLow
	case notification.PriorityCritical, notification.PriorityHigh:
	}
	return &library.Options{
		HTTPClient: s.client, Subscriber: s.subject, VAPIDPublicKey: s.public, VAPIDPrivateKey: s.private.Reveal(),
		Topic: content.Digest(content.CollapseID(n)), TTL: int(keep / time.Second), Urgency: urgency,
	}
}
