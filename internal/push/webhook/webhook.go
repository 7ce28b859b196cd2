// Package webhook delivers notifications as HTTP requests, signed as Standard Webhooks when there is a secret. Targets
// come from input: they are dialled through package egress, redirects are not followed, and little of the answer is
// read.
package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/pacer-notify/pacer/internal/egress"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/secret"
)

// maxReply is how much of an answer is read.
const maxReply = 64 << 10

// Config of a Sender.
type Config struct {
	// Secrets sign deliveries, each in the form whsec_… A receiver that knows one of them takes a delivery, so that a
	// new one can be brought in before the old one is taken away. Defaults to none: deliveries are not signed.
	Secrets []secret.Secret
	// Targets have secrets of their own, by host as it stands in the URL, port included. None means not signed.
	Targets map[string][]secret.Secret
	// GuardedConfig says which targets may be called.
	httpsend.GuardedConfig
}

// Checker looks at notifications for webhooks. CheckURL tells whether a target may be called.
type Checker struct{ CheckURL func(string) error }

// Sender delivers webhooks.
type Sender struct {
	Checker
	client  *httpsend.Guarded
	signers signers
	targets map[string]signers
}

// New makes a Sender. It fails on a secret that is none.
func New(cfg Config) (*Sender, error) {
	s := &Sender{targets: make(map[string]signers, len(cfg.Targets))}
	var err error
	if s.signers, err = newSigners(cfg.Secrets); err != nil {
		return nil, err
	}
	for host, secrets := range cfg.Targets {
		if s.targets[strings.ToLower(host)], err = newSigners(secrets); err != nil {
			return nil, fmt.Errorf("target %s: %w", host, err)
		}
	}
	if s.client, err = httpsend.NewGuarded(cfg.GuardedConfig); err != nil {
		return nil, err
	}
	s.Checker = Checker{s.client.CheckURL}
	return s, nil
}

// signers make a delivery's signatures.
type signers []*standardwebhooks.Webhook

func newSigners(secrets []secret.Secret) (signers, error) {
	all := make(signers, 0, len(secrets))
	for _, s := range secrets {
		signer, err := standardwebhooks.NewWebhook(s.Reveal())
		if err != nil || s.IsZero() {
			return nil, errors.New("read the webhook secret: it must be whsec_ and base64") // the cause may quote it
		}
		all = append(all, signer)
	}
	return all, nil
}

// sign gives the signatures as the header holds them: one per secret, separated by blanks.
func (s signers) sign(id string, at time.Time, payload []byte) (string, error) {
	signatures := make([]string, len(s))
	for i, signer := range s {
		var err error
		if signatures[i], err = signer.Sign(id, at, payload); err != nil {
			return "", fmt.Errorf("sign the webhook: %w", err)
		}
	}
	return strings.Join(signatures, " "), nil
}

// Close ends all connections, and with them the calls in flight. Later calls fail.
func (s *Sender) Close() error {
	s.client.Close()
	return nil
}

// CheckTarget implements [push.Checker].
func (c Checker) CheckTarget(to string) error { return c.CheckURL(to) }

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
	trace := &httpsend.Trace{}
	if err := ctx.Err(); err != nil {
		return trace.Classify(err) // HTTP/2 may send on an open connection before it looks
	}
	request, err := s.request(trace.Attach(ctx), m)
	_, forbidden := errors.AsType[*egress.ForbiddenError](err)
	switch {
	case forbidden:
		return &push.Error{Class: push.Permanent, Code: "forbidden_address", Unsent: true, Err: err}
	case err != nil:
		return &push.Error{Class: push.Permanent, Code: "bad_request", Unsent: true, Err: err}
	}
	response, err := s.client.Do(request)
	if err != nil {
		return trace.Classify(err)
	}
	defer response.Body.Close()
	// Reading the answer to its end lets the connection be used again; what it says beyond its status is not wanted.
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxReply))
	if failure := httpsend.Classify(response); failure != nil {
		return failure
	}
	return nil
}

func (s *Sender) request(ctx context.Context, m push.Message) (*http.Request, error) {
	// A target that was accepted under another configuration, or by nobody, must not be tried again and again.
	if err := s.client.CheckURL(m.To); err != nil {
		return nil, fmt.Errorf("the target %w", err)
	}
	data := m.Data
	if len(data) == 0 {
		data = nil // an empty RawMessage is no JSON; none is null
	}
	payload, err := json.Marshal(body{
		ID: m.ID, UserID: m.UserID, Category: m.Category, Title: m.Title, Body: m.Body, Data: data,
		CreatedAt: m.CreatedAt.UTC(),
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
	signers, own := s.targets[strings.ToLower(request.URL.Host)]
	if !own {
		signers = s.signers
	}
	if len(signers) > 0 {
		signature, err := signers.sign(m.ID, now, payload)
		if err != nil {
			return nil, err
		}
		header.Set("Webhook-Signature", signature)
	}
	return request, nil
}

// CheckContent implements [push.Checker]: a webhook has no format of its own that an override could be laid over.
func (Checker) CheckContent(n *notification.Notification) error { return channel.NoOwnFormat(n) }
