// Package slack posts to incoming webhooks of Slack, and of servers that take the same messages. A webhook's URL is all
// that protects a conversation, so it shows in no log, error or metric. Slack has no idempotency key: a repeat after an
// attempt without a response may show twice.
package slack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

// Config of a Sender. Hosts are required.
type Config struct {
	// Hosts are where webhooks may be.
	Hosts httpsend.Hosts
	// GuardedConfig says which addresses may be called.
	httpsend.GuardedConfig
}

// Sender posts to webhooks.
type Sender struct {
	Checker
	client *httpsend.Guarded
}

// New makes a Sender. It fails when there is no host, or one that is none.
func New(cfg Config) (*Sender, error) {
	if len(cfg.Hosts) == 0 || !cfg.Hosts.Valid() {
		return nil, errors.New("the hosts must be names such as hooks.slack.com")
	}
	client, err := httpsend.NewGuarded(cfg.GuardedConfig)
	if err != nil {
		return nil, err
	}
	return &Sender{Checker: Checker{cfg.Hosts, client.CheckURL}, client: client}, nil
}

// Close ends all connections, and with them the calls in flight. Later calls fail.
func (s *Sender) Close() error {
	s.client.Close()
	return nil
}

// Checker checks notifications for Slack. Hosts are where webhooks may be. CheckURL tells whether a target may be
// called.
type Checker struct {
	Hosts    httpsend.Hosts
	CheckURL func(string) error
}

// CheckTarget implements [push.Checker]. Its errors repeat nothing of the target.
func (c Checker) CheckTarget(to string) error {
	u, err := url.Parse(to)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "" || len(u.Path) < 2 || u.RawQuery != "" || u.Fragment != "":
		return errors.New("must be the URL of an incoming webhook, such as https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXX")
	case !c.Hosts.Has(u):
		return fmt.Errorf("must be at a host that --slack-hosts (PACER_SLACK_HOSTS) names: %s", c.Hosts)
	case isSlack(u) && !isWebhook(u.Path):
		return errors.New("must be the URL of an incoming webhook: its path is /services/ and three parts")
	}
	return c.CheckURL(to)
}

// isSlack tells whether a URL is at Slack itself. Elsewhere webhooks have other paths.
func isSlack(u *url.URL) bool { return httpsend.Hosts{"hooks.slack.com", "hooks.slack-gov.com"}.Has(u) }

// isWebhook tells whether a path is an incoming webhook's. Slack's workflows and slash commands have other URLs at the
// same host, and take other messages.
func isWebhook(path string) bool {
	parts := strings.Split(path, "/")
	if len(parts) != 5 || parts[1] != "services" {
		return false
	}
	for _, part := range parts[2:] {
		if part == "" || strings.Trim(part, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") != "" {
			return false
		}
	}
	return true
}

// CheckContent implements [push.Checker].
func (Checker) CheckContent(n *notification.Notification) error {
	_, err := message(n)
	return err
}

// Send implements [push.Sender].
func (s *Sender) Send(ctx context.Context, m push.Message) error {
	return httpsend.Call(ctx, s.client.Client, func(ctx context.Context) (*http.Request, error) {
		return s.request(ctx, m.Notification)
	}, func(response *http.Response, text string) *push.Error {
		failure := classify(response, text)
		if failure != nil {
			failure.Reply = push.Reply([]byte(text), m.Notification)
		}
		return failure
	})
}

// request makes the request. Slack ignores the Idempotency-Key; another server may drop repeats by it.
func (s *Sender) request(ctx context.Context, n *notification.Notification) (*http.Request, error) {
	// A target may have been accepted under another configuration, or without a check. It must not be retried for ever.
	if err := s.CheckTarget(n.To); err != nil {
		return nil, fmt.Errorf("the target %w", err)
	}
	body, err := message(n)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, n.To, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the target is not a URL") // the cause repeats the URL
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "pacer")
	request.Header.Set("Idempotency-Key", n.ID)
	return request, nil
}

// classify says what a response means; nil is delivered. Slack's reason is the whole text.
func classify(response *http.Response, text string) *push.Error {
	read := httpsend.ResponseOf(response)
	read.Reason = strings.TrimSpace(text)
	return responses.Read(read)
}
