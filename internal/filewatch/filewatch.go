// Package filewatch notices that files may have changed: that they were written in place, replaced by others, or
// swapped by Kubernetes with the directory that they are linked from. The policy and the secrets are watched by it.
package filewatch

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Files are looked at when their directories have been quiet for quietTime, because editors and copies write in several
// steps. They are looked at after patience at the latest, because a busy directory is never quiet.
const (
	quietTime = 100 * time.Millisecond
	patience  = time.Second
)

// defaultPollInterval is the default of Config.PollInterval.
const defaultPollInterval = 10 * time.Second

// Config says what is watched.
type Config struct {
	// What the files hold, for the log: "the policy".
	What string
	// Files are their paths. Without any, nothing is watched.
	Files []string
	// Check looks at the files. It is called when the watch begins, and whenever something may have changed, one call
	// at a time. It returns after which time it wants to look again; 0 leaves that to the next change.
	Check func(context.Context) (again time.Duration)
	// PollInterval is how often Check is called even if the file system announces no change. Defaults to 10 seconds.
	PollInterval time.Duration
	Log          *slog.Logger
}

// Run watches until ctx ends. Some changes are not announced by the file system: those on a network drive, or of a
// symbolic link further up the path. Run finds them because it looks every PollInterval.
func Run(ctx context.Context, cfg Config) {
	if len(cfg.Files) == 0 {
		<-ctx.Done()
		return
	}
	if cfg.PollInterval <= 0 {
		cfg.PollInterval = defaultPollInterval
	}
	var changes <-chan fsnotify.Event
	var faults <-chan error
	events, err := cfg.subscribe()
	if err == nil {
		defer func() { _ = events.Close() }()
		changes, faults = events.Events, events.Errors
	} else {
		cfg.Log.WarnContext(ctx, "files can't be watched; they are read at intervals instead", "of", cfg.What,
			"interval", cfg.PollInterval, "error", err)
	}
	cfg.loop(ctx, changes, faults)
}

// subscribe watches the files' directories. A watch on a file itself would be lost when another file takes its place,
// and would not see the links that Kubernetes swaps in the directory.
func (cfg Config) subscribe() (*fsnotify.Watcher, error) {
	events, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	var directories []string
	for _, file := range cfg.Files {
		directories = append(directories, filepath.Dir(file))
	}
	slices.Sort(directories)
	for _, directory := range slices.Compact(directories) {
		if err := events.Add(directory); err != nil {
			return nil, errors.Join(err, events.Close())
		}
	}
	return events, nil
}

func (cfg Config) loop(ctx context.Context, changes <-chan fsnotify.Event, faults <-chan error) {
	poll := time.NewTicker(cfg.PollInterval)
	defer poll.Stop()
	var settled <-chan time.Time
	var latest time.Time
	check := func() {
		settled = nil
		if again := cfg.Check(ctx); again > 0 {
			settled, latest = time.After(again), time.Now().Add(again)
		}
	}
	check() // the files may have changed since they were read first
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-faults:
			// Changes may have been missed. The next poll finds them.
			cfg.Log.WarnContext(ctx, "could not watch files; they are read at the next interval", "of", cfg.What, "error", err)
		case <-changes:
			if settled == nil {
				latest = time.Now().Add(patience)
			}
			settled = time.After(min(quietTime, time.Until(latest)))
		case <-settled:
			check()
		case <-poll.C:
			// Not while a file is being written, because half a file can be a valid one.
			if settled == nil {
				check()
			}
		}
	}
}
