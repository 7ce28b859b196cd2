package log_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push/log"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	pushtest.Run(t, func(testing.TB) pushtest.Subject {
		out := &lines{}
		return pushtest.Subject{
			Sender:  log.New(slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))),
			Channel: notification.ChannelLog, Target: "anywhere", Logged: out.String,
			Calls: func() []pushtest.Call {
				var calls []pushtest.Call
				for line := range strings.Lines(out.String()) {
					_, rest, _ := strings.Cut(line, "notification_id=")
					id, _, _ := strings.Cut(rest, " ")
					calls = append(calls, pushtest.Call{Identity: id})
				}
				return calls
			},
			Answer: func(pushtest.Answer) {},
		}
	})
}

// lines is what was logged.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements [io.Writer].
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String is all of them.
func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
