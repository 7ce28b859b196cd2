// Package ntfy publishes to topics of ntfy servers: the configured server, and those in the URLs of targets. The latter
// come from input, so every call is dialled through package egress, and the access token goes only to the configured
// server. A repeat has the same sequence id. Servers from 2.16 on then update the message; older ones show it twice.
package ntfy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/secret"
)

// Config of a Sender. Server is required.
type Config struct {
	// Server is the base URL of the server for topics without a URL.
	Server string
	// Token is an access token for Server. Defaults to none.
	Token secret.Secret
	// GuardedConfig says which servers may be called.
	httpsend.GuardedConfig
}

// Sender publishes to topics.
type Sender struct {
	Checker
	token  secret.Secret
	client *httpsend.Guarded
}

// New makes a Sender. It fails when the server is not a base URL.
func New(cfg Config) (*Sender, error) {
	if err := (Settings{Server: cfg.Server}).Check(); err != nil || cfg.Server == "" {
		return nil, errors.New("the server must be a URL such as https://ntfy.sh, without a path")
	}
	client, err := httpsend.NewGuarded(cfg.GuardedConfig)
	if err != nil {
		return nil, err
	}
	return &Sender{Checker: Checker{cfg.Server, client.CheckURL}, token: cfg.Token, client: client}, nil
}

// Close ends all connections, and with them the calls in flight. Later calls fail.
func (s *Sender) Close() error {
	s.client.Close()
	return nil
}

// CheckContent implements [push.Checker].
func (Checker) CheckContent(n *notification.Notification) error {
	_, err := message(n, "topic", false)
	return err
}

// Send implements [push.Sender].
func (s *Sender) Send(ctx context.Context, m push.Message) error {
	own := false
	return httpsend.Call(ctx, s.client.Client, func(ctx context.Context) (r *http.Request, err error) {
		r, own, err = s.request(ctx, m)
		return r, err
	}, func(response *http.Response) *push.Error {
		text := httpsend.Finish(ctx, response, push.ReplyRead)
		failure := classify(response, own)
		if failure != nil {
			failure.Reply = push.Reply([]byte(text), m.Notification, s.token.Reveal())
		}
		return failure
	})
}

// request makes the request, and reports whether it goes to the configured server. It publishes JSON at the server's
// root.
func (s *Sender) request(ctx context.Context, m push.Message) (_ *http.Request, own bool, err error) {
	// A target may have been accepted under another configuration, or without a check. It must not be retried for ever.
	to, err := s.topic(m.To)
	if err != nil {
		return nil, false, fmt.Errorf("the target %w", err)
	}
	body, err := message(m.Notification, to.name, m.Passive)
	if err != nil {
		return nil, false, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.server+"/", bytes.NewReader(body))
	if err != nil {
		return nil, false, errors.New("the target is not a URL") // the cause repeats the URL
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "pacer")
	own = to.server == origin(s.Server)
	if own && !s.token.IsZero() {
		request.Header.Set("Authorization", "Bearer "+s.token.Reveal())
	}
	return request, own, nil
}

// classify says what a server's response means; nil is delivered. own is true for the configured server.
func classify(response *http.Response, own bool) *push.Error {
	read := httpsend.ResponseOf(response)
	if own {
		read.Conditions = []string{ownServer}
	}
	return responses.Read(read)
}

// origin is a base URL in lower case, without a slash at its end.
func origin(server string) string { return strings.ToLower(strings.TrimSuffix(server, "/")) }
