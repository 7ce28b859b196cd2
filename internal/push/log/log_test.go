package log_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/log"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// provider is a log whose lines are deliveries. It accepts all of them.
type provider struct {
	slog.Handler
	provider *pushtest.Provider
}

// Handle implements [slog.Handler].
func (p provider) Handle(ctx context.Context, line slog.Record) error {
	line.Attrs(func(a slog.Attr) bool {
		if a.Key == "notification_id" {
			p.provider.Receive(pushtest.Call{Identity: a.Value.String()})
		}
		return true
	})
	return p.Handler.Handle(ctx, line)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	features := pushtest.Features{Channel: log.Settings{}.Channel(), AnyTarget: true}
	pushtest.Run(t, features, func(_ testing.TB, p *pushtest.Provider) pushtest.Subject {
		return pushtest.Subject{
			New:     func(to *slog.Logger) push.Sender { return log.New(slog.New(provider{to.Handler(), p})) },
			Target:  "canarytarget0c6a",
			Good:    []string{"", "https://example.com/canarytarget0c6a", "\x00"},
			Secrets: []string{"canarytarget0c6a"},
		}
	})
}

func TestTheLineNamesUserAndNotification(t *testing.T) {
	t.Parallel()
	for level, want := range map[slog.Level]string{
		slog.LevelDebug: "level=DEBUG msg=notification notification_id=n1 user_id=ada category=chat attempt=2 " +
			"admitted_at=2027-01-15T08:00:01.234Z\n",
		slog.LevelInfo: "",
	} {
		t.Run(level.String(), func(t *testing.T) {
			t.Parallel()
			var text strings.Builder
			options := &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
				if len(groups) == 0 && a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}}
			sender := log.New(slog.New(slog.NewTextHandler(&text, options)))
			err := sender.Send(t.Context(), push.Message{
				Notification: &notification.Notification{
					ID: "n1", UserID: "ada", Category: "chat", To: "nowhere", Title: "hello", Body: "world",
					Data: []byte(`{}`),
				},
				Attempt: 2, AdmittedAt: time.UnixMilli(1_800_000_001_234).UTC(),
			})
			if err != nil || text.String() != want {
				t.Errorf("at level %s: %v and the line %q, want %q", level, err, text.String(), want)
			}
		})
	}
}
