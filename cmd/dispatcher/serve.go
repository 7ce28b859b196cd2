package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/plural"
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
	hangups := make(chan os.Signal, 1)
	// Until it is gone: a SIGHUP during its start or its end would end it, and systemd takes that for clean.
	signal.Notify(hangups, syscall.SIGHUP)
	log := ownProcess(to.err, resolved)
	tuneMemory(log)
	process, err := hooks().New(ctx, resolved, log)
	if err != nil {
		return err
	}
	log.InfoContext(ctx, "loaded the time zones for quiet hours", "tzdata", calendar.Database())
	stopReloading := reloadOnHangup(ctx, hangups, process, log)
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

// reloadOnHangup reads the policy again at every SIGHUP, also at one that came before, until ctx ends or stop is
// called.
func reloadOnHangup(
	ctx context.Context, hangups <-chan os.Signal, process *app.App, log *slog.Logger,
) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangups:
			}
			if err := process.ReloadPolicy(ctx); err != nil {
				log.ErrorContext(ctx, "policy not loaded; keeping the policy in force", "error", err)
			} else {
				log.InfoContext(ctx, "policy reloaded")
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

type policyCommand struct {
	Show     policyShowCommand     `cmd:"" help:"Print the policy in force in a running deployment, and which processes have another one."`
	Check    policyCheckCommand    `cmd:"" help:"Validate a policy file: print every fault with its line; exit 1 when there are any."`
	Diff     policyDiffCommand     `cmd:"" help:"Show what a policy file would change for waiting notifications, without changing anything."`
	Simulate policySimulateCommand `cmd:"" help:"Play recorded arrivals under a policy file: what would have gone when, and what would have ended."`
	Test     policyTestCommand     `cmd:"" help:"Play the cases of a file under the policy that it names; exit 1 when one does not end as it says."`
	Record   policyRecordCommand   `cmd:"" help:"Print what Postgres has accepted as arrivals for a simulation, without contents, and with users unnamed."`
	Apply    policyApplyCommand    `cmd:"" help:"Put a policy file in force: replace the file that the processes watch, and wait until all of them have it."`
}

type policyCheckCommand struct {
	File string `arg:"" help:"Policy file to validate." type:"path"`
}

// errFaultyPolicy is the short end of a longer output.
var errFaultyPolicy = errors.New("the policy file has faults")

// Run checks the file.
func (c *policyCheckCommand) Run(to streams) error {
	p, err := readPolicy(c.File, to)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(to.out, "%s is valid: %s, %s, version %s\n\n%s\n%s%s", c.File,
		plural.Of(len(p.Categories), "category", "categories"), plural.Of(len(p.UserCap), "user cap", "user caps"),
		p.Version(), p.LimitsTable(), p.DeliveriesTable(settings.Channels{}.Deliveries()), p.DescribeHours())
	return err
}

// readPolicy reads a policy file, and shows its warnings or all its faults.
func readPolicy(file string, to streams) (*policy.Policy, error) {
	text, err := os.ReadFile(file) //nolint:gosec // the operator names the file; read once: it may be a pipe
	if err != nil {
		return nil, fmt.Errorf("the policy file can't be read: %w", err)
	}
	p, err := policy.Parse(file, text, settings.Channels{}.Names()...)
	if err != nil {
		_, _ = fmt.Fprintln(to.err, err) // nowhere else to tell
		return nil, errFaultyPolicy
	}
	for _, w := range policy.Warnings(file, p) {
		_, _ = fmt.Fprintf(to.err, "%s:%d:%d: warning: %s\n", w.File, w.Line, w.Column, w.Message) // nowhere else to tell
	}
	return p, nil
}
