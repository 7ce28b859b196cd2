// Command enqueue hands notifications to pacer: one from flags, or many from a file.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/version"
)

// streams are where the program reads from and writes to.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// The exit codes.
const (
	exitAccepted = 0
	exitRefused  = 1 // some lines were refused, the others went in
	exitUsage    = 2 // wrong usage, or nothing could be reached
)

func main() {
	signal.Ignore(syscall.SIGPIPE) // whoever reads the ids may go away: what was accepted is still told
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

// run executes a command line and gives the exit code.
func run(ctx context.Context, args []string, with streams) int {
	err := execute(ctx, args, with)
	switch {
	case err == nil:
		return exitAccepted
	case errors.Is(err, errSomeRefused):
		return exitRefused
	}
	_, _ = fmt.Fprintln(with.err, "enqueue: "+err.Error()) // nowhere else to tell
	return exitUsage
}

// description is what --help begins with.
const description = "Hand notifications to pacer. With REDIS_URL, enqueue writes to the queue itself; otherwise it calls the API at --server. Ids go to standard output, everything else to standard error. " +
	"For command-line completion: source <(enqueue completion bash); zsh and fish work too."

// completionLine is the command line of enqueue completion SHELL. It is apart, since enqueue takes no other command.
type completionLine struct {
	Completion settings.Completion `cmd:"" help:"Print the completion script for bash, zsh or fish."`
}

func execute(ctx context.Context, args []string, with streams) error {
	var command command
	options := []kong.Option{kong.Writers(with.out, with.err), kong.Vars{
		"version": version.Current().String(), "without_redis_url": "none, it calls the API at --server",
	}}
	parser, err := settings.NewParser(&command, "enqueue", description, options...)
	if err != nil {
		return fmt.Errorf("set up the command line: %w", err)
	}
	completion := settings.CompletionCommands{"completion": {"bash", "zsh", "fish"}}
	if asked, err := settings.Complete(parser, completion); asked || err != nil {
		return err
	}
	if len(args) > 0 && args[0] == "completion" {
		return writeCompletion(args, options)
	}
	if err := settings.CheckEnvironment(os.Environ(), settings.EnvironmentNames(parser)...); err != nil {
		return err
	}
	if _, err := settings.Parse(parser, args); err != nil {
		return err
	}
	return command.execute(ctx, with)
}

func writeCompletion(args []string, options []kong.Option) error {
	parser, err := settings.NewParser(&completionLine{}, "enqueue", description, options...)
	if err != nil {
		return fmt.Errorf("set up the command line: %w", err)
	}
	command, err := settings.Parse(parser, args)
	if err != nil {
		return err
	}
	return command.Run()
}
