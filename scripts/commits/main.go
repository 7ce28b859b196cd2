// Command commits looks whether commit messages are as CONTRIBUTING.md asks.
//
//	go run ./scripts/commits                the commits that this branch has and main has not
//	go run ./scripts/commits v1.2.3..HEAD   those of a range
//
// Where Git's history is not there (a tarball, a shallow clone) it says that it cannot look, and does not fail.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	faults, err := check(ctx, checkout("."), strings.Join(os.Args[1:], " "), os.Stderr)
	stop()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "commits:", err)
		os.Exit(2)
	case faults > 0:
		os.Exit(1)
	}
}

// checkout is a folder in which Git is asked.
type checkout string

// errUnseen is why there is nothing to look at, where that is no mistake.
var errUnseen = errors.New("nothing was looked at")

// check writes the faults of a range of commits, of the branch's own when it is empty, and returns how many there are.
func check(ctx context.Context, in checkout, commits string, to io.Writer) (faults int, err error) {
	hashes, err := in.list(ctx, commits)
	if errors.Is(err, errUnseen) {
		fmt.Fprintln(to, "commits:", err)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for _, hash := range hashes {
		message, err := in.git(ctx, "show", "--no-patch", "--format=%B", hash)
		if err != nil {
			return faults, err
		}
		for _, fault := range faultsOf(message) {
			subject, _, _ := strings.Cut(message, "\n")
			fmt.Fprintf(to, "%.10s %q: %s\n", hash, subject, fault)
			faults++
		}
	}
	fmt.Fprintf(to, "commits: %d looked at, %d faults\n", len(hashes), faults)
	return faults, nil
}

// list returns the commits of a range, without merges: their messages are Git's. The error is errUnseen where this
// checkout cannot know them.
func (c checkout) list(ctx context.Context, commits string) ([]string, error) {
	if _, err := c.git(ctx, "rev-parse", "--git-dir"); err != nil {
		return nil, fmt.Errorf("%w: this is no checkout of Git, or there is no git", errUnseen)
	}
	shallow, err := c.git(ctx, "rev-parse", "--is-shallow-repository")
	if err != nil {
		return nil, err
	}
	if commits == "" {
		if commits, err = c.own(ctx); err != nil {
			return nil, err
		}
	}
	hashes, err := c.git(ctx, "rev-list", "--no-merges", "--end-of-options", commits)
	switch {
	case shallow == "true":
		// Also where the range can be resolved: what is cut off may belong to it, or keep what is old out of it.
		return nil, fmt.Errorf("%w: a shallow clone does not have the history; git fetch --unshallow", errUnseen)
	case err != nil:
		return nil, err
	}
	return strings.Fields(hashes), nil
}

// own is the range of what this branch has and main has not.
func (c checkout) own(ctx context.Context) (string, error) {
	for _, trunk := range []string{"origin/main", "main"} {
		if _, err := c.git(ctx, "rev-parse", "--verify", "--quiet", trunk); err == nil {
			return trunk + "..HEAD", nil
		}
	}
	return "", fmt.Errorf("%w: this checkout has no main to compare with; give a range", errUnseen)
}

// git returns what a command of Git prints.
func (c checkout) git(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", args...) //nolint:gosec // a range is not taken for an option
	command.Dir = string(c)
	out, err := command.Output()
	if err != nil {
		var printed string
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			printed = strings.TrimSpace(string(exit.Stderr))
		}
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, printed)
	}
	return strings.TrimSpace(string(out)), nil
}
