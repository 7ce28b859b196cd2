package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/reach"
)

// summingInterval is the shortest time between two lines of the same warning.
const summingInterval = 10 * time.Second

// summing is a handler that sums up repeated lines: while a store is away every delivery fails, and ten thousand equal
// lines say no more than one. It writes the first of equal warnings at once. For those that follow within an interval
// it writes one line at its end, with their number as "repeated". Warnings are equal when their messages are. Errors
// are equal when everything but "error" is.
//
// While a store can't be reached, which one line has said, warnings that only follow from that are for debugging.
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
	lost  map[string]bool // the symptoms of stores that can't be reached
}

// repeatedLine is a line that was written in this interval, and its repeats since.
type repeatedLine struct {
	last   slog.Record
	silent int
}

// newSumming makes a summing handler in front of another handler.
func newSumming(next slog.Handler) *summing {
	return &summing{next: next, state: &summed{known: map[string]*repeatedLine{}, lost: map[string]bool{}}}
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
	said := h.state.reach(r)
	if r.Level < slog.LevelWarn || said {
		return h.next.Handle(ctx, r)
	}
	if h.state.follows(r) {
		if r.Level = slog.LevelDebug; !h.next.Enabled(ctx, r.Level) {
			return nil
		}
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

// reach notes whether a line says that a store can't be reached, or can again.
func (s *summed) reach(r slog.Record) (said bool) {
	r.Attrs(func(a slog.Attr) bool {
		switch of := a.Value.Any().(type) {
		case reach.Lost:
			s.set(of.Symptom, true)
			said = true
		case reach.Found:
			s.set(of.Symptom, false)
			said = true
		}
		return !said
	})
	return said
}

func (s *summed) set(symptom string, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.lost, symptom); lost {
		s.lost[symptom] = true
	}
}

// follows reports whether a line is about what follows from a store that can't be reached.
func (s *summed) follows(r slog.Record) (found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lost) == 0 {
		return false
	}
	r.Attrs(func(a slog.Attr) bool {
		text := a.Value.String()
		for symptom := range s.lost {
			found = found || strings.Contains(text, symptom)
		}
		return !found
	})
	return found
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
