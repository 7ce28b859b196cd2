package secret

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/filewatch"
)

const (
	// MaxFile is how long a file with a secret may be, in bytes.
	MaxFile = 64 << 10
	// settle is how long a file must stay as it is before its value is used: a file that is being written in place may
	// hold half a password, which looks like a whole one.
	settle = time.Second
	// renewTimeout bounds the checking of a new value.
	renewTimeout = 10 * time.Second
)

// Files are files that a secret is made of, and what they held when it was made.
type Files struct {
	Paths []string
	seen  digest
}

// digest tells contents apart without keeping them.
type digest [sha256.Size]byte

// Look notes what files hold. It must come before they are read: then a change in between is noticed.
func Look(paths ...string) Files {
	seen, _ := digestOf(paths) // a file that can't be read is refused by whoever reads it
	return Files{Paths: paths, seen: seen}
}

// digestOf sums up what files hold.
func digestOf(paths []string) (sum digest, err error) {
	all := sha256.New()
	for _, path := range paths {
		text, err := ReadFile(path)
		if err != nil {
			return digest{}, err
		}
		one := sha256.Sum256([]byte(text))
		all.Write(one[:])
	}
	return digest(all.Sum(nil)), nil
}

// ReadFile reads a file with a secret. Its errors complete a sentence about the setting that names the file.
func ReadFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("can't be read: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, MaxFile+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("can't be read: %w", err)
	case len(text) > MaxFile:
		return "", fmt.Errorf("names a file of more than %d bytes", MaxFile)
	}
	return string(text), nil
}

// Source is a secret that stands in files, and what follows when they change.
type Source struct {
	// Name is what logs, metrics and ops pages call it: a channel, or a setting.
	Name  string
	Files Files
	// Renew reads the files again, checks the new value and puts it in force. When it fails, the value in force stays.
	// Its error must show no secret.
	Renew func(context.Context) error
}

// State is how a secret from files stands.
type State struct {
	Name string
	// RenewedAt is when the value in force was read.
	RenewedAt time.Time
	// Refused is why what the files hold now is not in force, RefusedAt since when; empty when it is.
	Refused   string
	RefusedAt time.Time
}

// Watcher keeps secrets in step with their files. Whatever becomes of a file, there is always a value in force: a new
// one replaces it once the file has stayed the same for a second and the value has been checked.
type Watcher struct {
	// Config of the watch. NewWatcher sets it; tests may change how often it looks.
	watch   filewatch.Config
	sources []*source
	log     *slog.Logger

	mu sync.Mutex // holds the states
}

// source is a Source with its state.
type source struct {
	Source

	inForce digest // what the files held when the value in force was read
	// found is what they held at the last look, when that is not in force, and since when.
	found digest
	since time.Time
	state State
}

// NewWatcher makes a Watcher of the sources that have files.
func NewWatcher(sources []Source, log *slog.Logger) *Watcher {
	w := &Watcher{log: log}
	w.watch = filewatch.Config{What: "secrets", Check: w.look, Log: log}
	for _, s := range sources {
		if len(s.Files.Paths) == 0 {
			continue
		}
		w.watch.Files = append(w.watch.Files, s.Files.Paths...)
		w.sources = append(w.sources, &source{
			Source: s, inForce: s.Files.seen, state: State{Name: s.Name, RenewedAt: time.Now().UTC()},
		})
	}
	return w
}

// Run keeps the secrets in step until ctx ends.
func (w *Watcher) Run(ctx context.Context) { filewatch.Run(ctx, w.watch) }

// States reports how each secret from files stands.
func (w *Watcher) States() []State {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	states := make([]State, 0, len(w.sources))
	for _, s := range w.sources {
		states = append(states, s.state)
	}
	return states
}

// look looks at all files. It wants to look again when one of them has changed just now.
func (w *Watcher) look(ctx context.Context) (again time.Duration) {
	for _, s := range w.sources {
		if wait := w.lookAt(ctx, s, time.Now()); wait > 0 && (again == 0 || wait < again) {
			again = wait
		}
	}
	return again
}

// lookAt looks at the files of one secret. A refused value is tried again at each look: what refused it may have been
// a server that does not know it yet.
func (w *Watcher) lookAt(ctx context.Context, s *source, now time.Time) (again time.Duration) {
	seen, err := digestOf(s.Files.Paths)
	switch {
	case err != nil:
		s.found = digest{}
		w.refuse(ctx, s, err)
		return 0
	case seen == s.inForce:
		s.found = digest{}
		w.restored(ctx, s)
		return 0
	case seen != s.found:
		s.found, s.since = seen, now
		return settle
	}
	if left := settle - now.Sub(s.since); left > 0 {
		return left
	}
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	if err := s.Renew(ctx); err != nil {
		w.refuse(ctx, s, err)
		return 0
	}
	s.inForce, s.found = seen, digest{}
	w.put(s, State{Name: s.Name, RenewedAt: time.Now().UTC()})
	w.log.InfoContext(ctx, "a secret has changed in its file, and the new value is in force", "secret", s.Name)
	return 0
}

// refuse notes that what the files hold is not in force. The log tells each reason once.
func (w *Watcher) refuse(ctx context.Context, s *source, err error) {
	if errors.Is(ctx.Err(), context.Canceled) || err.Error() == s.state.Refused {
		return
	}
	state := s.state
	if state.Refused == "" {
		state.RefusedAt = time.Now().UTC()
	}
	state.Refused = err.Error()
	w.put(s, state)
	w.log.ErrorContext(ctx, "a secret's file can't be used; keeping the value in force", "secret", s.Name, "error", err)
}

// restored notes that the files hold the value in force again.
func (w *Watcher) restored(ctx context.Context, s *source) {
	if s.state.Refused == "" {
		return
	}
	w.put(s, State{Name: s.Name, RenewedAt: s.state.RenewedAt})
	w.log.InfoContext(ctx, "a secret's file is correct again: it holds the value in force", "secret", s.Name)
}

func (w *Watcher) put(s *source, state State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.state = state
}
