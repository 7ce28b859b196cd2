package queue

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// logger passes asynq's own messages to slog. While Redis is away, asynq repeats the same complaint at every poll of
// every server. So the logger lets one message through per second, and says how many it suppressed.
type logger struct {
	log        *slog.Logger
	next       atomic.Int64 // Unix nanoseconds
	suppressed atomic.Int64
}

func (l *logger) write(level slog.Level, args []any) {
	now := time.Now().UnixNano()
	next := l.next.Load()
	if now < next || !l.next.CompareAndSwap(next, now+int64(time.Second)) {
		l.suppressed.Add(1)
		return
	}
	l.log.Log(context.Background(), level, "message from asynq", "text", fmt.Sprint(args...), "suppressed",
		l.suppressed.Swap(0))
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
