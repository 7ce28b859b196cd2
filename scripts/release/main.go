// Command release makes what a release of pacer consists of: for each system an archive with the programs and a list of
// what they are built from (an SBOM), the checksums of all, and the changelog's section as the release's notes.
//
//	go run ./scripts/release -version v1.2.3      of a tagged commit, whose section the changelog has
//	go run ./scripts/release -snapshot            of whatever is checked out; its notes are what is unreleased
//
// The same commit gives the same bytes with the same release of Go, on any machine: nothing depends on the clock, on
// the folder or on the system that it is run on.
package main

import (
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	version  string // as in v1.2.3, with or without a suffix as in -rc.1
	snapshot bool   // the version is no release: the changelog needs no section of it, the checkout may have changes
	source   string // the repository's top folder
	out      string // folder to write, which must not hold anything
	targets  string // systems as GOOS/GOARCH, with commas between
}

// everywhere are the systems that a release is for.
const everywhere = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64"

// semantic is a version that Go takes for one, without what may follow a plus sign: such versions compare as equal.
var semantic = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// run reads the command line and makes the release.
func run(ctx context.Context, args []string, log io.Writer) error {
	var o options
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.StringVar(&o.version, "version", "", "version to release, as in v1.2.3")
	flags.BoolVar(&o.snapshot, "snapshot", false,
		"no release: take what is checked out, and what is unreleased as notes")
	flags.StringVar(&o.source, "source", ".", "the repository's top `folder`")
	flags.StringVar(&o.out, "out", "dist", "`folder` to write")
	flags.StringVar(&o.targets, "targets", everywhere, "systems to build for, as `GOOS/GOARCH`, with commas between")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b, err := newBuild(ctx, o)
	if err != nil {
		return err
	}
	return b.make(ctx, log)
}

// newBuild checks the options against the checkout and the changelog, before anything is compiled.
func newBuild(ctx context.Context, o options) (*build, error) {
	b := &build{
		source: o.source, assets: filepath.Join(o.out, "assets"), version: o.version, compression: gzip.BestCompression,
	}
	if err := b.look(ctx, o.snapshot); err != nil {
		return nil, err
	}
	if !semantic.MatchString(b.version) {
		return nil, fmt.Errorf("version %q is not of the form v1.2.3", b.version)
	}
	for name := range strings.SplitSeq(o.targets, ",") {
		system, architecture, ok := strings.Cut(name, "/")
		if !ok {
			return nil, fmt.Errorf("target %q is not of the form GOOS/GOARCH", name)
		}
		b.targets = append(b.targets, target{system: system, architecture: architecture})
	}
	section := strings.TrimPrefix(b.version, "v")
	if o.snapshot {
		section = "Unreleased"
	}
	changelog, err := os.ReadFile(filepath.Join(o.source, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	notes, err := notesOf(string(changelog), section)
	if err != nil {
		return nil, err
	}
	return b, b.prepare(o.out, notes)
}

// look asks Git what is checked out.
func (b *build) look(ctx context.Context, snapshot bool) error {
	changes, err := b.git(ctx, "status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" && !snapshot {
		return fmt.Errorf("the checkout has changes:\n%s", changes)
	}
	if b.commit, err = b.git(ctx, "rev-parse", "HEAD"); err != nil {
		return err
	}
	if snapshot && b.version == "" {
		b.version = "v0.0.0-" + b.commit[:12]
	}
	seconds, err := b.git(ctx, "show", "--no-patch", "--format=%ct", "HEAD")
	if err != nil {
		return err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("time of the commit: %w", err)
	}
	b.time = time.Unix(unix, 0).UTC()
	return nil
}

// git returns what a command of Git prints about the checkout.
func (b *build) git(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", args...) //nolint:gosec // the program's own arguments
	command.Dir = b.source
	out, err := command.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err,
				strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// prepare makes the folders and writes the notes. What lies there already would be published with the rest.
func (b *build) prepare(out, notes string) error {
	entries, err := os.ReadDir(out)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(entries) != 0 {
		return fmt.Errorf("%s is not empty", out)
	}
	if err := os.MkdirAll(b.assets, 0o755); err != nil { //nolint:gosec // it is published
		return err
	}
	return os.WriteFile(filepath.Join(out, "notes.md"), []byte(notes), 0o644) //nolint:gosec // it is published
}
