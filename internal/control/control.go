// Package control keeps what operators told the deployment: which channels, categories and partitions are paused, what
// is to be done to many notifications, and who did what. Every process follows it within a second.
package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/nearest"
)

// Kind is what a pause is of.
type Kind string

// The kinds of things that can be paused.
const (
	Channel   Kind = "channel"
	Category  Kind = "category"
	Partition Kind = "partition"
)

// Subject is one thing that can be paused.
type Subject struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"`
}

// String is the subject as people write it, such as "channel fcm".
func (s Subject) String() string { return string(s.Kind) + " " + s.Name }

// Pause is a subject that is paused.
type Pause struct {
	Subject
	// By is who paused it, Why what he said.
	By  string    `json:"by"`
	Why string    `json:"why,omitempty"`
	At  time.Time `json:"at"`
}

// Events are the types of events that somebody wants, see [Store.WantEvents].
type Events struct {
	Types []string  `json:"types"`
	Until time.Time `json:"until"`
}

// At are the types that are wanted at a moment.
func (e Events) At(now time.Time) []string {
	if now.After(e.Until) {
		return nil
	}
	return e.Types
}

// Entry is one line of the audit log.
type Entry struct {
	At      time.Time `json:"at"`
	By      string    `json:"by"`
	Action  string    `json:"action"`
	Subject string    `json:"subject"`
	Detail  string    `json:"detail,omitempty"`
}

// Store keeps pauses, the audit log and jobs for all processes of a deployment.
type Store interface {
	// Pauses lists the subjects that are paused.
	Pauses(ctx context.Context) ([]Pause, error)
	// Told returns the same, and the events that somebody wants, with one request.
	Told(ctx context.Context) ([]Pause, Events, error)
	// WantEvents says which events somebody wants from now on, for a while. Whatever makes one of them happen then
	// writes it: on Postgres at once, on Redis once its process has followed.
	WantEvents(ctx context.Context, types []string, lasts time.Duration) error
	// Pause pauses a subject. One that is paused already stays paused, under the new reason.
	Pause(ctx context.Context, p Pause) error
	// Resume ends a pause; false when there was none.
	Resume(ctx context.Context, s Subject) (bool, error)
	// Note writes a line of the audit log; its moment is the store's.
	Note(ctx context.Context, e Entry) error
	// Audit gives the latest lines, newest first.
	Audit(ctx context.Context, limit int) ([]Entry, error)
	// ClearedSince returns the users whose windows were cleared after a moment, and when last, by the audit log. Unlike
	// the lines of the log, it is kept for as long as a limit may look back.
	ClearedSince(ctx context.Context, since time.Time) (map[string]time.Time, error)
	Jobs
}

// Check refuses subjects of unknown kinds. Names are compared with those that the deployment has.
func Check(s Subject, names func(Kind) []string) error {
	switch s.Kind {
	case Channel, Category, Partition:
	default:
		return fmt.Errorf("can't pause a %q: it must be a channel, a category or a partition%s", s.Kind,
			nearest.Hint(string(s.Kind), []string{string(Channel), string(Category), string(Partition)}))
	}
	if known := names(s.Kind); !slices.Contains(known, s.Name) {
		return fmt.Errorf("there is no %s: it must be one of %s%s", s, strings.Join(known, ", "),
			nearest.Hint(s.Name, known))
	}
	return nil
}

// Cleared is the action of an entry which says that a user's windows were cleared.
const Cleared = "clear"
