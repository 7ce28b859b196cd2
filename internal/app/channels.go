package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/settings"
)

// Channel is a part of the answer of the channels page, for the command that shows it.
type Channel = ops.Channel

// channels lists the configured channels with their health in this process, for the ops pages.
func (a *App) channels() []ops.Channel {
	var all []ops.Channel
	for _, name := range a.rules.channels.Names() {
		channel := ops.Channel{Channel: name}
		if gate, ok := a.gates[notification.Channel(name)]; ok {
			for _, s := range gate.States() {
				host := ops.Host{
					Host: s.Host, Breaker: s.Breaker, InFlight: s.InFlight, Outcome: s.Outcome,
					OutcomeAt: s.OutcomeAt,
				}
				if s.PausedFor > 0 {
					host.PausedFor = s.PausedFor.Round(time.Second).String()
				}
				channel.Hosts = append(channel.Hosts, host)
			}
		}
		all = append(all, channel)
	}
	return all
}

// Test is a notification that SendTest sends.
type Test struct {
	Channel, To, Title, Body string
}

// SendTest sends one notification with the settings' credentials, past queue, throttle and store, and gives the
// provider's answer: nil when it took it.
func SendTest(ctx context.Context, cfg *settings.Resolved, test Test,
	log *slog.Logger,
) (answer *push.Error, err error) {
	_, senders, closeSenders, err := openChannels(cfg, Hooks{}.withDefaults(), log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeSenders()) }()
	sender, ok := senders[notification.Channel(test.Channel)]
	if !ok {
		return nil, refuse("channel %q is not configured: its credentials are missing from the settings", test.Channel)
	}
	n := &notification.Notification{
		ID: uuid.NewString(), UserID: "test", Category: "default", Channel: notification.Channel(test.Channel),
		To:    test.To,
		Title: test.Title, Body: test.Body, Priority: notification.PriorityNormal, CreatedAt: time.Now(),
	}
	if err := sender.CheckTarget(n.To); err != nil {
		return nil, refuse("--to %v", err)
	}
	if err := sender.CheckContent(n); err != nil {
		return nil, refuse("the content %v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return push.Classify(sender.Send(ctx, push.Message{Notification: n, Attempt: 1, AdmittedAt: time.Now()})), nil
}

// AnswerText says what a provider's answer means, for people.
func AnswerText(answer *push.Error) string {
	if answer == nil {
		return "delivered: the provider took it"
	}
	text := map[push.Class]string{
		push.Permanent:          "refused: the provider will never take this notification",
		push.Transient:          "failed for now: it may work later",
		push.Throttled:          "throttled: the provider asks to slow down",
		push.TargetGone:         "gone: the provider does not know the target any more",
		push.Ambiguous:          "unknown: the provider was asked and gave no answer",
		push.CredentialsRefused: "credentials refused: the provider takes nothing with these settings",
	}[answer.Class]
	text += " (" + answer.Code + ")"
	if answer.RetryAfter > 0 {
		text += fmt.Sprintf(", again after %s", answer.RetryAfter)
	}
	if answer.Err != nil {
		text += ": " + answer.Err.Error()
	}
	return text
}
