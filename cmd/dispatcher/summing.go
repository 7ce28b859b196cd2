package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// summingInterval is the shortest time between two lines of the same warning.
const summingInterval = 10 * time.Second

// summing is a handler that sums up repeated lines: while a store is away every delivery fails, and ten thousand equal
// lines say no more than one. It writes the first of equal warnings at once. For those that follow within an interval
// it writes one line at its end, with their number as "repeated". Warnings are equal when their messages are. Errors
// are equal when everything but "error" is.
type summing struct {
	next  slog.Handler
	state *summed
	// prefix tells apart lines of loggers with different attributes.
	prefix string
}

// summed are the lines of all handlers that were made from one.
type summed struct {
	mu    sync.Mutex
	known map[string]*repeatedLine
}

// repeatedLine is a line that was written in this interval, and its repeats since.
type repeatedLine struct {
	last   slog.Record
	silent int
}

// newSumming makes a summing handler in front of another handler.
func newSumming(next slog.Handler) *summing {
	return &summing{next: next, state: &summed{known: map[string]*repeatedLine{}}}
}

// Enabled implements [slog.Handler].
func (h *summing) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithAttrs implements [slog.Handler].
func (h *summing) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &summing{next: h.next.WithAttrs(attrs), state: h.state, prefix: h.prefix + fmt.Sprint(attrs)}
}

// WithGroup implements [slog.Handler].
func (h *summing) WithGroup(name string) slog.Handler {
	return &summing{next: h.next.WithGroup(name), state: h.state, prefix: h.prefix + name + "."}
}

// Handle implements [slog.Handler].
func (h *summing) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return h.next.Handle(ctx, r)
	}
	key := h.keyOf(r)
	h.state.mu.Lock()
	if known, ok := h.state.known[key]; ok {
		known.last, known.silent = r.Clone(), known.silent+1
		h.state.mu.Unlock()
		return nil
	}
	h.state.known[key] = &repeatedLine{}
	h.state.mu.Unlock()
	//nolint:contextcheck // the line's own context has ended by then
	time.AfterFunc(summingInterval, func() { h.end(key) })
	return h.next.Handle(ctx, r)
}

// keyOf is the same for equal lines.
func (h *summing) keyOf(r slog.Record) string {
	var key strings.Builder
	key.WriteString(h.prefix + r.Message)
	if r.Level >= slog.LevelError {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key != "error" {
				key.WriteString(" " + a.String())
			}
			return true
		})
	}
	return key.String()
}

// end writes the repeats of an interval in one line. When there were any, it begins another interval.
func (h *summing) end(key string) {
	h.state.mu.Lock()
	known := h.state.known[key]
	if known.silent == 0 {
		delete(h.state.known, key)
		h.state.mu.Unlock()
		return
	}
	line := known.last
	line.AddAttrs(slog.Int("repeated", known.silent))
	known.silent = 0
	h.state.mu.Unlock()
	time.AfterFunc(summingInterval, func() { h.end(key) })
	_ = h.next.Handle(context.Background(), line) // nowhere else to tell
}
