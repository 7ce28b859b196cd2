package queue

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// logger passes asynq's own messages to slog. While Redis is away, asynq repeats the same complaint at every poll of
// every server. So the logger lets one message through per second, and says how many it suppressed.
type logger struct {
	log *slog.Logger

	mu         sync.Mutex
	next       time.Time // when the next message may pass
	suppressed int       // since the last one that passed
}

func (l *logger) write(level slog.Level, args []any) {
	if suppressed, passes := l.pass(time.Now()); passes {
		l.log.Log(context.Background(), level, "message from asynq", "text", fmt.Sprint(args...),
			"suppressed", suppressed)
	}
}

// pass reports whether a message may pass, and how many were suppressed before it.
func (l *logger) pass(now time.Time) (suppressed int, passes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.next) {
		l.suppressed++
		return 0, false
	}
	suppressed = l.suppressed
	l.next, l.suppressed = now.Add(time.Second), 0
	return suppressed, true
}

// Debug implements asynq.Logger.
func (l *logger) Debug(args ...any) { l.write(slog.LevelDebug, args) }

// Info implements asynq.Logger.
func (l *logger) Info(args ...any) { l.write(slog.LevelInfo, args) }

// Warn implements asynq.Logger.
func (l *logger) Warn(args ...any) { l.write(slog.LevelWarn, args) }

// Error implements asynq.Logger.
func (l *logger) Error(args ...any) { l.write(slog.LevelError, args) }

// Fatal implements asynq.Logger. It does not end the process: main decides that.
func (l *logger) Fatal(args ...any) { l.write(slog.LevelError, args) }
