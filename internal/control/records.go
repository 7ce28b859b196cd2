package control

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/record"
)

const (
	// clearedKept is how long it is known whose windows were cleared: no limit looks back further.
	clearedKept = 2 * 366 * 24 * time.Hour
	// pageSize is how many of these users are read at a time.
	pageSize = 1000
)

// audit is the audit log. Postgres keeps all of it.
var audit = record.Log{Name: "audit", Most: 1000}

// records keeps everything in records.
type records struct {
	store  record.Store
	pauses record.Kind[told]
	jobs   record.Kind[Job]
	// cleared has, for each user whose windows were cleared, only the number of this change, which is its moment.
	cleared record.Kind[struct{}]
}

// told is a pause or, under the key [eventsKey], which events are wanted: processes look for both together, so that the
// latter costs nothing while there are none. The database reads it, too: pacer.wanted_events.
type told struct {
	Pause
	Events *Events `json:"-"`
}

// eventsKey is that of the events that are wanted.
const eventsKey = "events"

// MarshalJSON writes the one that it is.
func (t *told) MarshalJSON() ([]byte, error) {
	if t.Events != nil {
		return json.Marshal(t.Events)
	}
	return json.Marshal(t.Pause)
}

// UnmarshalJSON reads it.
func (t *told) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, &t.Pause); err != nil || t.Kind != "" {
		return err
	}
	t.Events = &Events{}
	return json.Unmarshal(text, t.Events)
}

// New makes a Store of records.
func New(store record.Store) Store {
	return &records{
		store:   store,
		pauses:  record.Kind[told]{Store: store, Name: "pause"},
		jobs:    record.Kind[Job]{Store: store, Name: "job"},
		cleared: record.Kind[struct{}]{Store: store, Name: "cleared", Keep: clearedKept, Log: audit},
	}
}

func keyOf(s Subject) string { return string(s.Kind) + ":" + s.Name }

// Pauses implements [Store].
func (r *records) Pauses(ctx context.Context) ([]Pause, error) {
	pauses, _, err := r.Told(ctx)
	return pauses, err
}

// Told implements [Store].
func (r *records) Told(ctx context.Context) (pauses []Pause, events Events, err error) {
	all, err := r.pauses.List(ctx, "", 0)
	for i := range all {
		if all[i].Events != nil {
			events = *all[i].Events
		} else {
			pauses = append(pauses, all[i].Pause)
		}
	}
	return pauses, events, err
}

// WantEvents implements [Store].
func (r *records) WantEvents(ctx context.Context, types []string, lasts time.Duration) error {
	return r.pauses.Put(ctx, eventsKey, func(now time.Time) told {
		return told{Events: &Events{append([]string{}, types...), now.Add(lasts)}}
	})
}

// Pause implements [Store].
func (r *records) Pause(ctx context.Context, p Pause) error {
	return r.pauses.Put(ctx, keyOf(p.Subject), func(now time.Time) told {
		p.At = now
		return told{Pause: p}
	})
}

// Resume implements [Store].
func (r *records) Resume(ctx context.Context, s Subject) (bool, error) {
	return r.pauses.Remove(ctx, keyOf(s))
}

// Note implements [Store].
func (r *records) Note(ctx context.Context, e Entry) error {
	if e.Action == Cleared {
		_, err := r.cleared.Change(ctx, e.Subject, func(d *record.Draft[struct{}]) error {
			d.Remove, d.Tell = true, []any{e}
			return nil
		})
		return err
	}
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode an entry of the audit log: %w", err)
	}
	return r.store.Append(ctx, audit, line)
}

// Audit implements [Store].
func (r *records) Audit(ctx context.Context, limit int) ([]Entry, error) {
	lines, err := r.store.Newest(ctx, audit, limit)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(lines))
	for i, line := range lines {
		if err := json.Unmarshal(line.Text, &entries[i]); err != nil {
			return nil, fmt.Errorf("read line %d of the audit log: %w", line.Number, err)
		}
		entries[i].At = line.At.UTC()
	}
	return entries, nil
}

// ClearedSince implements [Store].
func (r *records) ClearedSince(ctx context.Context, since time.Time) (map[string]time.Time, error) {
	users := map[string]time.Time{}
	for from := since.UnixMicro() + 1; ; {
		page, err := r.store.Changes(ctx, r.cleared.Name, from, pageSize)
		if err != nil {
			return nil, err
		}
		for _, change := range page {
			if change.Key != "" {
				users[change.Key] = time.UnixMicro(change.Version).UTC()
			}
			from = change.Version + 1
		}
		if len(page) < pageSize {
			return users, nil
		}
	}
}

// AddJob implements [Jobs].
func (r *records) AddJob(ctx context.Context, j Job) error {
	_, err := r.jobs.Change(ctx, j.ID, func(d *record.Draft[Job]) error {
		if d.Exists {
			return record.ErrUnchanged
		}
		d.Doc, d.Doc.At = j, d.Now
		return nil
	})
	if err != nil {
		return err
	}
	jobs, err := r.Jobs(ctx)
	if err != nil {
		return err
	}
	for _, id := range forgotten(jobs) {
		if _, err := r.jobs.Remove(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// Jobs implements [Jobs].
func (r *records) Jobs(ctx context.Context) ([]Job, error) {
	jobs, err := r.jobs.List(ctx, "", 0)
	slices.SortFunc(jobs, func(a, b Job) int { return b.At.Compare(a.At) })
	return jobs, err
}

// ChangeJob implements [Jobs].
func (r *records) ChangeJob(ctx context.Context, id string, change func(*Job, time.Time) error) (*Job, error) {
	d, err := r.jobs.Change(ctx, id, func(d *record.Draft[Job]) error {
		if !d.Exists {
			return ErrNoJob
		}
		return change(&d.Doc, d.Now)
	})
	if err != nil {
		return nil, err
	}
	return &d.Doc, nil
}
