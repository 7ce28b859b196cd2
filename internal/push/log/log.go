// Package log is the channel that writes each delivery into the process's own log. It is for trying pacer out, and for
// tests that need no provider.
package log

import (
	"context"
	"log/slog"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/channel"
)

// Sender logs deliveries.
type Sender struct{ log *slog.Logger }

// New makes a Sender.
func New(log *slog.Logger) *Sender { return &Sender{log} }

// Send writes one line at debug level. The line names user and notification, and never shows the content.
func (s *Sender) Send(ctx context.Context, m push.Message) error {
	if err := ctx.Err(); err != nil {
		return &push.Error{Class: push.Transient, Code: "cancelled", Unsent: true, Err: err}
	}
	if s.log.Enabled(ctx, slog.LevelDebug) {
		s.log.DebugContext(ctx, "notification", "notification_id", m.ID, "user_id", m.UserID, "category", m.Category,
			"attempt", m.Attempt, "admitted_at", m.AdmittedAt)
	}
	return nil
}

// CheckTarget accepts any target, since none is used.
func (*Sender) CheckTarget(string) error { return nil }

// CheckContent implements [push.Checker]. A log has no format of its own, so there is no override.
func (*Sender) CheckContent(n *notification.Notification) error { return channel.NoOwnFormat(n) }
