// Command dispatcher takes throttled notifications off the queue and delivers each at the moment it may go.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"

	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/refusal"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/version"
)

// commandLine is every command of the program.
type commandLine struct {
	Serve       serveCommand        `cmd:"" default:"withargs" help:"Run workers, HTTP API and ops pages until SIGTERM (the default command)."`
	Demo        demoCommand         `cmd:"" help:"Show throttled delivery at once: serve on the embedded default, with sample traffic and a receiver."`
	Migrate     migrateCommand      `cmd:"" help:"Migrate the schema in Postgres."`
	Rebuild     rebuildCommand      `cmd:"" help:"Rebuild the state in Redis from Postgres, or compare the two."`
	Policy      policyCommand       `cmd:"" help:"Work with policy files."`
	Explain     explainCommand      `cmd:"" help:"Show the timeline of a notification, and why it waits."`
	User        userCommand         `cmd:"" help:"Show a user's windows, what fills them, what waits, and when it goes out."`
	List        listCommand         `cmd:"" help:"List notifications by user, status, category, channel, reason, host, time or text."`
	Channels    channelsCommand     `cmd:"" help:"List the channels, and whether their providers respond."`
	SendTest    sendTestCommand     `cmd:"" help:"Send one notification over a channel, bypassing queue and throttle, and show the provider's response."`
	VAPID       vapidCommand        `cmd:"" name:"vapid" help:"Make the key pair with which browsers subscribe to Web Push."`
	Bounce      bounceCommand       `cmd:"" help:"Pass an e-mail that came back, read from standard input, to the API; for use as a mail server's pipe."`
	Receive     receiveCommand      `cmd:"" help:"Run a webhook target for trials: print what arrives, verify signatures, and fail or be slow on request."`
	Top         topCommand          `cmd:"" help:"Show the deployment's figures in the terminal, live."`
	Stats       statsCommand        `cmd:"" help:"Show the deployment's figures once."`
	History     historyCommand      `cmd:"" help:"Show what was accepted, delivered, deferred, failed and expired, by hour, for up to 30 days."`
	Pause       pauseCommand        `cmd:"" help:"Pause a channel, category or partition: its notifications wait."`
	Resume      resumeCommand       `cmd:"" help:"Resume what is paused."`
	Change      changeCommand       `cmd:"" help:"Change the priority, send_at or expires_at of a notification that waits."`
	Release     releaseCommand      `cmd:"" help:"Let a notification that waits go at once, whatever limits and quiet hours say."`
	Cancel      cancelCommand       `cmd:"" help:"Cancel a notification that waits, or all that a filter selects."`
	Retry       retryCommand        `cmd:"" help:"Send a failed or expired notification again, or all that a filter selects."`
	Move        moveCommand         `cmd:"" help:"Move a notification to another channel, or all that a filter selects."`
	Jobs        jobsCommand         `cmd:"" help:"List the jobs that retry, cancel or move many notifications, or stop one."`
	Healthcheck healthcheckCommand  `cmd:"" help:"Exit 0 if the local process can take work."`
	Completion  settings.Completion `cmd:"" help:"Print the completion script for bash, zsh or fish. Load it with: source <(dispatcher completion bash)"`
	Man         manCommand          `cmd:"" help:"Print the manual page."`
	Version     versionCommand      `cmd:"" help:"Show version, commit and Go version, and the version of the time zones."`

	VersionFlag kong.VersionFlag `name:"version" env:"-" help:"Show the version."`
}

// streams are where a command writes to.
type streams struct{ out, err io.Writer }

func main() {
	os.Exit(run(context.Background(), os.Args[1:], streams{os.Stdout, os.Stderr}))
}

// run executes a command line and gives the exit code: 0 done, 1 failed, 2 refused.
func run(ctx context.Context, args []string, to streams) int {
	err := execute(ctx, args, to)
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintln(to.err, "dispatcher: "+err.Error()) // nowhere else to tell
	if _, refused := errors.AsType[*refusal.Error](err); refused {
		return 2
	}
	var coded kong.ExitCoder
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return 1
}

func execute(ctx context.Context, args []string, to streams) error {
	parser, err := settings.NewParser(&commandLine{}, "dispatcher", "pacer delivers notifications, throttled per user.",
		kong.Writers(to.out, to.err), kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(to),
		kong.Vars{"version": version.Current().String()})
	if err != nil {
		return fmt.Errorf("set up the command line: %w", err)
	}
	if asked, err := settings.Complete(parser, nil); asked || err != nil {
		return err
	}
	if err := settings.CheckEnvironment(os.Environ(), settings.EnvironmentNames(parser)...); err != nil {
		return err
	}
	command, err := settings.Parse(parser, args)
	if err != nil {
		return err
	}
	return command.Run()
}

type versionCommand struct{}

// Run shows the version, and that of the time zones.
func (versionCommand) Run(to streams) error {
	_, err := fmt.Fprintf(to.out, "%s\ntime zones: tzdata %s\n", version.Current(), calendar.Database())
	return err
}
