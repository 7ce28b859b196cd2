package webhook_test

import (
	"context"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/internal/push/webhook"
)

// redirected is a sender whose messages go to an address at which nobody listens while the provider is to be unreachable.
type redirected struct {
	*webhook.Sender
	target, nowhere string
	provider        *provider
}

// Send implements [push.Sender].
func (r *redirected) Send(ctx context.Context, m push.Message) error {
	r.provider.mu.Lock()
	unreachable := r.provider.answer == pushtest.Unreachable
	r.provider.mu.Unlock()
	if unreachable && m.To == r.target {
		elsewhere := *m.Notification
		elsewhere.To = r.nowhere
		m.Notification = &elsewhere
	}
	return r.Sender.Send(ctx, m)
}
