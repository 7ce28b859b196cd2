package policy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pacer-notify/pacer/internal/filewatch"
)

// WatcherConfig configures a [Watcher].
type WatcherConfig struct {
	// Path is the policy file. Defaults to the built-in policy, which never changes.
	Path string
	// Channels are those that the file may name. Defaults to any.
	Channels []string
	// Logger gets one line for each reload that [Watcher.Run] makes. Defaults to none.
	Logger *slog.Logger
	// PollInterval is how often the file is read even if the file system announces no change. Defaults to 10 seconds.
	PollInterval time.Duration
	// Check refuses a policy that may not replace the one in force as things are: its error says what to do. A policy
	// that was refused is checked again at every look. Defaults to allowing all.
	Check func(ctx context.Context, before, after *Policy) error
	// OnChange is called with each policy that replaces another, one call at a time, before [Watcher.Reload] returns.
	// It must not call Reload. Defaults to nothing.
	OnChange func(*Policy)
}

// Watcher holds the policy in force and replaces it when its file changes. It is safe for concurrent use.
type Watcher struct {
	cfg     WatcherConfig
	current atomic.Pointer[Policy]
	inForce atomic.Pointer[InForce]

	mu sync.Mutex // one reload at a time
}

// NewWatcher reads the policy for the first time. It fails on a file that can't be read or has faults; see [Parse].
func NewWatcher(cfg WatcherConfig) (*Watcher, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Check == nil {
		cfg.Check = func(context.Context, *Policy, *Policy) error { return nil }
	}
	if cfg.OnChange == nil {
		cfg.OnChange = func(*Policy) {}
	}
	w := &Watcher{cfg: cfg}
	if cfg.Path == "" {
		w.put(Default())
		return w, nil
	}
	p, _, err := w.read()
	if err != nil {
		return nil, err
	}
	w.put(p)
	return w, nil
}

// InForce says which policy a process has in force.
type InForce struct {
	// Version is [Policy.Version], File the path of the file or [BuiltIn], LoadedAt when it came into force.
	Version  string
	File     string
	LoadedAt time.Time
	// Refused is why the file as it is now is not in force, RefusedAt since when; empty when it is.
	Refused   string
	RefusedAt time.Time
	// RefusedVersion is [VersionOf] the text that was refused; empty when the file could not be read.
	RefusedVersion string
}

// InForce says which policy is in force, and whether its file was refused since.
func (w *Watcher) InForce() InForce { return *w.inForce.Load() }

// put puts a policy in force.
func (w *Watcher) put(p *Policy) {
	w.current.Store(p)
	w.inForce.Store(&InForce{Version: p.Version(), File: w.Name(), LoadedAt: time.Now().UTC()})
}

// refuse notes that the file is not in force, or with an empty fault that it is again. It returns whether the fault is
// another one than before. Another text may have the same fault.
func (w *Watcher) refuse(fault, version string) bool {
	standing := w.InForce()
	another := standing.Refused != fault
	if fault != "" && standing.RefusedVersion == version && version != "" {
		another = false // as many wait as do now
		standing.Refused = fault
	}
	if another {
		standing.Refused, standing.RefusedAt = fault, time.Now().UTC()
	}
	if fault == "" {
		standing.RefusedAt = time.Time{}
	}
	standing.RefusedVersion = version
	w.inForce.Store(&standing)
	return another
}

// Name is the path of the policy file, or [BuiltIn].
func (w *Watcher) Name() string {
	if w.cfg.Path == "" {
		return BuiltIn
	}
	return w.cfg.Path
}

// Current is the policy in force.
func (w *Watcher) Current() *Policy { return w.current.Load() }

// Reload reads the policy file again and puts it in force. When the file can't be read, has faults or is refused, the
// policy in force stays, and the error says why. Reload logs nothing.
func (w *Watcher) Reload(ctx context.Context) error {
	_, err := w.reload(ctx)
	return err
}

// outcome is what a reload found.
type outcome uint8

// The outcomes.
const (
	unchanged    outcome = iota
	replaced             // another policy is in force now
	restored             // the file had a fault, and is correct again: it holds the policy in force
	refused              // the file has a fault
	notNow               // the file is correct, and may not be in force as things are
	refusedAgain         // the file has the same fault as at the last reload
)

func (w *Watcher) reload(ctx context.Context) (outcome, error) {
	if w.cfg.Path == "" {
		return unchanged, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p, version, err := w.read()
	found := refused
	if err == nil && p.Text != w.Current().Text {
		found, err = notNow, w.cfg.Check(ctx, w.Current(), p)
	}
	switch {
	case err != nil:
		if w.refuse(err.Error(), version) {
			return found, err
		}
		return refusedAgain, err
	case p.Text != w.Current().Text:
		w.put(p)
		w.cfg.OnChange(p)
		return replaced, nil
	case w.refuse("", ""):
		return restored, nil
	}
	return unchanged, nil
}

// read reads the policy file, and returns the version of its text too, which is empty when it can't be read.
func (w *Watcher) read() (p *Policy, version string, err error) {
	data, err := ReadFile(w.cfg.Path)
	if err != nil {
		return nil, "", w.unreadable(err)
	}
	p, err = Parse(w.cfg.Path, data, w.cfg.Channels...)
	return p, VersionOf(string(data)), err
}

// ReadFile reads a policy file. Of one that is longer than allowed it reads a byte too much, for which [Parse] refuses
// it.
func ReadFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, MaxFileBytes+1))
	return data, errors.Join(err, file.Close())
}

// unreadable says that the policy file, which --policy names, can't be read.
func (w *Watcher) unreadable(err error) error {
	if why, ok := errors.AsType[*fs.PathError](err); ok {
		err = why.Err
	}
	return fmt.Errorf("the policy file %s can't be read (--policy, PACER_POLICY): %w", w.cfg.Path, err)
}

// Run reloads the policy whenever its file changes, until ctx ends, and logs each reload in one line. The file may be
// written in place or replaced by another.
func (w *Watcher) Run(ctx context.Context) {
	watched := filewatch.Config{
		What: "the policy", PollInterval: w.cfg.PollInterval, Log: w.cfg.Logger,
		Check: func(ctx context.Context) time.Duration { w.check(ctx); return 0 },
	}
	if w.cfg.Path != "" {
		watched.Files = []string{w.cfg.Path}
	}
	filewatch.Run(ctx, watched)
}

// check reloads the policy, and logs it when something has changed.
func (w *Watcher) check(ctx context.Context) {
	result, err := w.reload(ctx)
	log := w.cfg.Logger.With("policy", w.cfg.Path)
	switch result {
	case replaced:
		log.InfoContext(ctx, "policy reloaded", "categories", len(w.Current().Categories))
	case restored:
		log.InfoContext(ctx, "policy file is correct again: it holds the policy in force")
	case refused:
		log.ErrorContext(ctx, "policy file refused; keeping the policy in force", "error", err)
	case notNow:
		log.WarnContext(ctx, "policy not loaded; keeping the policy in force", "error", err)
	case unchanged, refusedAgain:
	}
}
