package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/pacer-notify/pacer/internal/settings"
)

// newLogger writes text to a terminal and JSON to anything else, unless told.
func newLogger(to io.Writer, s *settings.Resolved) *slog.Logger {
	options := &slog.HandlerOptions{Level: s.LogLevel}
	if s.LogFormat == "text" || s.LogFormat == "" && isTerminal(to) {
		return slog.New(newSumming(slog.NewTextHandler(to, options)))
	}
	return slog.New(newSumming(slog.NewJSONHandler(to, options)))
}

// ownProcess makes the logger of a process that serves. Libraries log by it too, and the process outlives the reader of
// its log.
func ownProcess(to io.Writer, s *settings.Resolved) *slog.Logger {
	log := newLogger(to, s)
	if to == os.Stderr { // not in tests, which have many logs in one process
		signal.Ignore(syscall.SIGPIPE)
		slog.SetLogLoggerLevel(slog.LevelWarn) // of package log, which only libraries use, such as net/http
		slog.SetDefault(slog.New(ofLibraries{log.Handler()}))
	}
	return log
}

// isTerminal reports whether somebody reads what is written.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// ofLibraries hands on what libraries log by the default logger.
type ofLibraries struct{ slog.Handler }

// quoted is what a library repeats of what it read, such as a provider's response.
var quoted = regexp.MustCompile(`"(\\.|[^"\\])*"?`)

// Handle implements [slog.Handler].
func (h ofLibraries) Handle(ctx context.Context, r slog.Record) error {
	problem, _, _ := strings.Cut(r.Message, "\n") // a stack may follow
	line := slog.NewRecord(r.Time, r.Level, "a library reports a problem", r.PC)
	line.AddAttrs(slog.String("problem", quoted.ReplaceAllString(problem, "…")))
	return h.Handler.Handle(ctx, line)
}
