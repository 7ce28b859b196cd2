package httpsend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// HookConfig of a [Hook]. Hosts are required.
type HookConfig struct {
	// Hosts are where webhooks may be.
	Hosts Hosts
	// GuardedConfig says which addresses may be called.
	GuardedConfig
}

// Hook posts JSON to webhooks whose URLs are secrets by themselves, as those of chats are, at hosts that an operator
// names. None of its errors shows a URL.
type Hook struct {
	guarded *Guarded
	// CheckTarget refuses targets that can't be called, and Message what can't be sent. Classify says what a response
	// means; nil is delivered.
	CheckTarget func(to string) error
	Message     func(*notification.Notification) ([]byte, error)
	Classify    func(response *http.Response, text string) *push.Error
}

// NewHook makes a Hook, of which the functions are still to be set. It fails when there is no host, or one that is
// none.
func NewHook(cfg HookConfig) (*Hook, error) {
	if len(cfg.Hosts) == 0 || !cfg.Hosts.Valid() {
		return nil, errors.New("the hosts must be names such as hooks.example.com")
	}
	guarded, err := NewGuarded(cfg.GuardedConfig)
	if err != nil {
		return nil, err
	}
	return &Hook{guarded: guarded}, nil
}

// CheckURL reports whether a target may be called, as far as that shows without looking up its address.
func (h *Hook) CheckURL(target string) error { return h.guarded.CheckURL(target) }

// Close ends all connections, and with them the calls in flight. Later calls fail.
func (h *Hook) Close() error {
	h.guarded.Close()
	return nil
}

// Send implements the method of [push.Sender].
func (h *Hook) Send(ctx context.Context, m push.Message) error {
	return Call(ctx, h.guarded.Client, func(ctx context.Context) (*http.Request, error) {
		return h.request(ctx, m.Notification)
	}, func(response *http.Response) *push.Error {
		text := Finish(ctx, response, push.ReplyRead)
		failure := h.Classify(response, text)
		if failure != nil {
			failure.Reply = push.Reply([]byte(text), m.Notification)
		}
		return failure
	})
}

// request makes the request. Slack and Teams ignore the
// Idempotency-Key; a self-hosted server may use it to drop repeats.
func (h *Hook) request(ctx context.Context, n *notification.Notification) (*http.Request, error) {
	// A target may have been accepted under another configuration, or without a check. It must not be retried for ever.
	if err := h.CheckTarget(n.To); err != nil {
		return nil, fmt.Errorf("the target %w", err)
	}
	body, err := h.Message(n)
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
