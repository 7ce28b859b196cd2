package desk

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/stats"
)

// History is what happened, by hour and category, oldest first.
//
//	{"since": "…", "hours": [{"hour": "2026-03-14T15:00:00Z", "category": "chat", "accepted": 120, "delivered": 118,
//	  "deferred": 40, "failed": 1, "expired": 1, "cancelled": 0, "replaced": 0}]}
//
// Hours in which nothing happened are not listed.
type History struct {
	// Since is when the first hour began that was asked for.
	Since time.Time    `json:"since"`
	Hours []stats.Hour `json:"hours" nullable:"false"`
	// Partial is true when a partition could not be asked: its counts are missing.
	Partial bool `json:"partial,omitempty"`
}

const (
	// historyDefault is how far a history goes back when nobody says, HistoryKept how far it can.
	historyDefault = 24 * time.Hour
	HistoryKept    = 30 * 24 * time.Hour
)

// HistoryStore keeps the history.
type HistoryStore interface {
	// History returns what happened from the hour of one moment to that of another. With an error it returns what could
	// be read.
	History(ctx context.Context, since, until time.Time) ([]stats.Hour, error)
}

// HistoryParameters lists the parameters of a query for the history.
func HistoryParameters() []string { return []string{"category", "since"} }

// ReadHistory reads a query such as category=chat&since=7d, and returns the history. A category that the policy no
// longer names may be asked for as long as the history has it: for a month.
func ReadHistory(ctx context.Context, store HistoryStore, query url.Values, names Names, now time.Time,
) (*History, error) {
	since := now.Add(-historyDefault)
	err := CheckParameters(query, HistoryParameters())
	if text := query.Get("since"); text != "" {
		at, wrong := ParseMoment(text, now)
		switch {
		case wrong != nil:
			err = errors.Join(err, &notification.FieldError{Field: "since", Message: wrong.Error()})
		case now.Sub(at) > HistoryKept+time.Hour:
			err = errors.Join(err, &notification.FieldError{Field: "since", Message: "may be at most 30d ago: older history is not kept"})
		}
		since = at
	}
	if err != nil {
		return nil, err
	}
	hours, err := store.History(ctx, since, now)
	if err != nil && len(hours) == 0 {
		return nil, err
	}
	if category := query.Get("category"); category != "" {
		hours = slices.DeleteFunc(hours, func(h stats.Hour) bool { return h.Category != category })
		if len(hours) == 0 && err == nil {
			if names, err = names.withPast(ctx, store, category, now); err == nil {
				if wrong := oneOf("category", category, names.Categories); wrong != nil {
					return nil, &notification.FieldError{Field: "category", Message: wrong.Error()}
				}
			}
		}
	}
	if hours == nil {
		hours = []stats.Hour{}
	}
	return &History{Since: since.UTC().Truncate(time.Hour), Hours: hours, Partial: err != nil}, nil
}

// withPast adds the categories of the history, unless the policy names the one that is asked for: something of a
// category that the policy lost may wait, and was counted.
func (n Names) withPast(ctx context.Context, store HistoryStore, category string, now time.Time) (Names, error) {
	if category == "" || slices.Contains(n.Categories, category) {
		return n, nil
	}
	hours, err := store.History(ctx, now.Add(-HistoryKept), now)
	if err != nil {
		return n, err // nobody can tell
	}
	there := slices.Clone(n.Categories)
	for _, h := range hours {
		there = append(there, h.Category)
	}
	slices.Sort(there)
	n.Categories = slices.Compact(there)
	return n, nil
}
