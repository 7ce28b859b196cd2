// Package webhook delivers notifications as HTTP requests. With a secret they are signed as Standard Webhooks. Targets
// come from input, so they are dialled through package egress, redirects are not followed, and little of the response
// is read.
package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/egress"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/signing"
)

// Config of a Sender.
type Config struct {
	// Secrets sign deliveries, each in the form whsec_… or whsk_… A receiver needs to know only one of them, so a new
	// secret can be added before the old one is removed. Defaults to none: deliveries are not signed.
	Secrets []secret.Secret
	// Targets have secrets of their own, by the host as it stands in the URL, port included. A target without a secret
	// is not signed for.
	Targets map[string][]secret.Secret
	// Registered returns what signs calls to a registered URL, and the headers to send with them; false for any other.
	// A registered URL has no part in the other secrets. Defaults to none.
	Registered func(url string) (signing.Keys, http.Header, bool)
	// GuardedConfig says which targets may be called.
	httpsend.GuardedConfig
}

// Checker checks notifications for webhooks. CheckURL reports whether a target may be called.
type Checker struct{ CheckURL func(string) error }

// Sender delivers webhooks.
type Sender struct {
	Checker
	client     *httpsend.Guarded
	keys       signing.Keys
	targets    map[string]signing.Keys
	registered func(url string) (signing.Keys, http.Header, bool)
}

// New makes a Sender. It fails when a secret is not in the right form.
func New(cfg Config) (*Sender, error) {
	s := &Sender{targets: make(map[string]signing.Keys, len(cfg.Targets)), registered: cfg.Registered}
	if s.registered == nil {
		s.registered = func(string) (signing.Keys, http.Header, bool) { return nil, nil, false }
	}
	var err error
	if s.keys, err = signing.ParseAll(cfg.Secrets); err != nil {
		return nil, err
	}
	for host, secrets := range cfg.Targets {
		if s.targets[strings.ToLower(host)], err = signing.ParseAll(secrets); err != nil {
			return nil, fmt.Errorf("target %s: %w", host, err)
		}
	}
	if s.client, err = httpsend.NewGuarded(cfg.GuardedConfig); err != nil {
		return nil, err
	}
	s.Checker = Checker{s.client.CheckURL}
	return s, nil
}

// keysOf are what signs calls to a URL, with the headers that it was registered with.
func (s *Sender) keysOf(to *url.URL, target string) (signing.Keys, http.Header) {
	if keys, header, ok := s.registered(target); ok {
		return keys, header
	}
	if keys, own := s.targets[strings.ToLower(to.Host)]; own {
		return keys, nil
	}
	return s.keys, nil
}

// headersOf are the values of the headers that a URL was registered with. A receiver may repeat them in its reply.
func (s *Sender) headersOf(target string) (values []string) {
	_, header, _ := s.registered(target)
	for _, value := range header {
		values = append(values, value...)
	}
	return values
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
	Digest    *digest         `json:"digest,omitempty"`
}

// digest is what a target receives of a digest beside its newest notification.
type digest struct {
	ID       string    `json:"id"`
	Count    int       `json:"count"`
	Omitted  int       `json:"omitted"`
	OldestAt time.Time `json:"oldest_at"`
	NewestAt time.Time `json:"newest_at"`
	Items    []item    `json:"items"`
}

// item is one notification of a digest.
type item struct {
	ID        string          `json:"id"`
	Title     string          `json:"title"`
	Body      string          `json:"body"`
	Data      json.RawMessage `json:"data"`
	CreatedAt time.Time       `json:"created_at"`
}

// digestOf writes a digest; nil for a notification that goes alone.
func digestOf(of *notification.Digest) *digest {
	if of == nil {
		return nil
	}
	d := &digest{
		ID: of.ID, Count: of.Count, Omitted: of.Omitted, OldestAt: of.OldestAt.UTC(), NewestAt: of.NewestAt.UTC(),
	}
	for _, n := range of.Items {
		d.Items = append(d.Items, item{n.ID, n.Title, n.Body, dataOf(n), n.CreatedAt.UTC()})
	}
	return d
}

// dataOf is the data of a notification as JSON: nil becomes null, an empty text would not be JSON.
func dataOf(n *notification.Notification) json.RawMessage {
	if len(n.Data) == 0 {
		return nil
	}
	return n.Data
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
	response, err := httpsend.Do(s.client.Client, request)
	if err != nil {
		return trace.Classify(err)
	}
	defer response.Body.Close()
	text := httpsend.Finish(ctx, response, push.ReplyRead)
	failure := responses.Read(httpsend.ResponseOf(response)) // only the status counts
	if failure == nil {
		return nil
	}
	failure.Reply = push.Reply([]byte(text), m.Notification, s.headersOf(m.To)...)
	return failure
}

func (s *Sender) request(ctx context.Context, m push.Message) (*http.Request, error) {
	// A target may have been accepted under another configuration, or without a check. It must not be retried for ever.
	if err := s.client.CheckURL(m.To); err != nil {
		return nil, fmt.Errorf("the target %w", err)
	}
	payload, err := json.Marshal(body{
		ID: m.ID, UserID: m.UserID, Category: m.Category, Title: m.Title, Body: m.Body,
		Data: dataOf(m.Notification), CreatedAt: m.CreatedAt.UTC(), Digest: digestOf(m.Digest),
	})
	if err != nil {
		return nil, errors.New("encode the webhook's body: its data or its date is not valid") // the cause quotes the data
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.To, bytes.NewReader(payload))
	if err != nil {
		return nil, errors.New("the target is not a URL") // the cause repeats the URL
	}
	keys, own := s.keysOf(request.URL, m.To)
	now := time.Now()
	signature, err := keys.Sign(m.ID, now, payload)
	if err != nil {
		return nil, err
	}
	header := request.Header
	header.Set("User-Agent", "pacer")
	maps.Copy(header, own) // before those that it can't replace
	header.Set("Content-Type", "application/json")
	header.Set("Webhook-Id", m.ID)
	header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	header.Set("Pacer-Attempt", strconv.Itoa(m.Attempt))
	header.Set("Pacer-Admitted-At", strconv.FormatInt(m.AdmittedAt.UnixMicro(), 10))
	if m.Passive {
		header.Set("Pacer-Quiet-Hours", "passive")
	}
	if signature != "" {
		header.Set("Webhook-Signature", signature)
	}
	return request, nil
}

// CheckContent implements [push.Checker]. Webhooks have no format of their own, so there is no override.
func (Checker) CheckContent(n *notification.Notification) error { return channel.NoOwnFormat(n) }
