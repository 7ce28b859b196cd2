package channel

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/refusal"
)

// testTimeout bounds the sending of a test.
const testTimeout = 15 * time.Second

// Test is a notification that SendTest sends.
type Test struct {
	Channel, To, Title, Body string
}

// SendTest sends one notification past queue, throttle and store, and returns what the provider said: nil when it took
// the notification.
func (o *Opened) SendTest(ctx context.Context, test Test) (*push.Error, error) {
	name := notification.Channel(test.Channel)
	sender, ok := o.Senders[name]
	if !ok {
		return nil, refusal.New("channel %q is not configured: its credentials are missing from the settings", name)
	}
	n := &notification.Notification{
		ID: uuid.NewString(), UserID: "test", Category: "default", Channel: name, To: test.To,
		Title: test.Title, Body: test.Body, Priority: notification.PriorityNormal, CreatedAt: time.Now(),
	}
	if err := sender.CheckTarget(n.To); err != nil {
		return nil, refusal.New("--to %v", err)
	}
	if err := sender.CheckContent(n); err != nil {
		return nil, refusal.New("the content %v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	return push.Classify(sender.Send(ctx, push.Message{Notification: n, Attempt: 1, AdmittedAt: time.Now()})), nil
}

// Describe says for people what a provider's response means.
func Describe(response *push.Error) string {
	if response == nil {
		return "delivered: the provider took it"
	}
	text := map[push.Class]string{
		push.Permanent:          "refused: the provider will never take this notification",
		push.Transient:          "failed for now: it may work later",
		push.Throttled:          "throttled: the provider asks to slow down",
		push.TargetGone:         "gone: the provider no longer knows the target",
		push.Ambiguous:          "unknown: it may have been delivered, or not",
		push.CredentialsRefused: "settings refused: the provider takes nothing with them",
	}[response.Class]
	text += " (" + response.Code + ")"
	if response.RetryAfter > 0 {
		text += fmt.Sprintf(", again after %s", response.RetryAfter)
	}
	if response.Reply != "" {
		text += ": " + response.Reply
	}
	if response.Err != nil {
		text += ": " + response.Err.Error()
	}
	return text
}
