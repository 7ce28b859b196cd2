package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/internal/logging"
	"github.com/pacer-notify/pacer/internal/memory"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/settings"
)

type serveCommand struct{ settings.Server }

// Run serves until SIGTERM or SIGINT.
func (c *serveCommand) Run(ctx context.Context, to streams) error {
	resolved, err := c.Resolve()
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	log := newLogger(to.err, resolved)
	memory.Tune(log)
	process, err := hooks().New(ctx, resolved, log)
	if err != nil {
		return err
	}
	stopReloading := reloadOnHangup(ctx, process, log)
	defer stopReloading()
	return process.Run(ctx)
}

// secondSignalExit ends a process that does not stop fast enough for whoever stops it.
const secondSignalExit = 130

// untilSignal gives a context that ends at the first SIGTERM or SIGINT. The second one ends the process at once.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
			return
		}
		<-signals
		os.Exit(secondSignalExit) //nolint:revive // at once is what a second signal asks for
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel()
	}
}

// reloadOnHangup reads the policy again at every SIGHUP; what it gives back ends that.
func reloadOnHangup(ctx context.Context, process *app.App, log *slog.Logger) (stop func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range hangups {
			if err := process.ReloadPolicy(); err != nil {
				log.ErrorContext(ctx, "policy file refused; the policy in force stays", "error", err)
			} else {
				log.InfoContext(ctx, "policy reloaded")
			}
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(hangups)
		<-done
	}
}

// newLogger writes text to a terminal and JSON to anything else, unless told.
func newLogger(to io.Writer, s *settings.Resolved) *slog.Logger {
	options := &slog.HandlerOptions{Level: s.LogLevel}
	if s.LogFormat == "text" || s.LogFormat == "" && isTerminal(to) {
		return slog.New(logging.NewSumming(slog.NewTextHandler(to, options)))
	}
	return slog.New(logging.NewSumming(slog.NewJSONHandler(to, options)))
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

type policyCommand struct {
	Show  policyShowCommand  `cmd:"" help:"Print the policy in force of a running deployment, and which process has another one."`
	Check policyCheckCommand `cmd:"" help:"Validate a policy file: every fault with its line; exit 1 when there is one."`
}

type policyCheckCommand struct {
	File string `arg:"" help:"Policy file to validate." type:"path"`
}

// errFaultyPolicy is the short end of a longer output.
var errFaultyPolicy = errors.New("the policy file has faults")

// Run checks the file.
func (c *policyCheckCommand) Run(to streams) error {
	if _, err := os.ReadFile(c.File); err != nil {
		return fmt.Errorf("the policy file can't be read: %w", err)
	}
	channels := settings.Channels{}
	watcher, err := policy.NewWatcher(policy.WatcherConfig{Path: c.File, Channels: channels.Names()})
	if err != nil {
		_, _ = fmt.Fprintln(to.err, err) // nowhere else to tell
		return errFaultyPolicy
	}
	p := watcher.Current()
	for _, w := range policy.Warnings(c.File, p) {
		_, _ = fmt.Fprintf(to.err, "%s:%d:%d: warning: %s\n", w.File, w.Line, w.Column, w.Message) // nowhere else to tell
	}
	_, err = fmt.Fprintf(to.out, "%s is valid: %s, %s\n\n%s", c.File,
		count(len(p.Categories), "category", "categories"), count(len(p.UserCap), "user cap", "user caps"),
		p.Describe(channels.Deliveries()))
	return err
}

// count writes a number of things.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
