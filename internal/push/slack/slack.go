// Package slack posts to incoming webhooks of Slack, and of servers that take the same messages. A webhook's URL is all
// that protects a conversation, so it shows in no log, error or metric. Slack has no idempotency key: a repeat after an
// attempt without a response may show twice.
package slack

import (
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

// Sender posts to webhooks.
type Sender struct {
	Checker
	hook *httpsend.Hook
}

// New makes a Sender. It fails when there is no host, or one that is none.
func New(cfg httpsend.HookConfig) (*Sender, error) {
	hook, err := httpsend.NewHook(cfg)
	if err != nil {
		return nil, err
	}
	s := &Sender{Checker: Checker{cfg.Hosts, hook.CheckURL}, hook: hook}
	hook.CheckTarget, hook.Message, hook.Classify = s.CheckTarget, message, classify
	return s, nil
}

// Close ends all connections, and with them the calls in flight. Later calls fail.
func (s *Sender) Close() error { return s.hook.Close() }

// Send implements [push.Sender].
func (s *Sender) Send(ctx context.Context, m push.Message) error { return s.hook.Send(ctx, m) }

// Checker checks notifications for Slack. Hosts are where webhooks may be. CheckURL reports whether a target may be
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

// isSlack reports whether a URL is at Slack itself. Elsewhere webhooks have other paths.
func isSlack(u *url.URL) bool { return httpsend.Hosts{"hooks.slack.com", "hooks.slack-gov.com"}.Has(u) }

// isWebhook reports whether a path is an incoming webhook's. Slack's workflows and slash commands have other URLs at
// the same host, and take other messages.
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

// classify says what a response means; nil is delivered. Slack's reason is the whole text.
func classify(response *http.Response, text string) *push.Error {
	read := httpsend.ResponseOf(response)
	read.Reason = strings.TrimSpace(text)
	return responses.Read(read)
}
