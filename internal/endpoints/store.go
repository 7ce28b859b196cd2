package endpoints

import (
	"context"
	"errors"
	"time"

	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/record"
)

// Store keeps endpoints in records.
type Store struct{ kind record.Kind[Endpoint] }

// NewStore makes one.
func NewStore(records record.Documents) *Store {
	return &Store{record.Kind[Endpoint]{
		Store: records, Name: "endpoint", Encode: encode, Decode: decode,
		Alias: func(e *Endpoint) string { return Normal(e.URL) }, Most: MaxEndpoints, Keep: removedKept,
		Log: events.Log,
	}}
}

// Get returns one endpoint, or [ErrNotFound].
func (s *Store) Get(ctx context.Context, id string) (*Endpoint, error) {
	e, found, err := s.kind.Get(ctx, id)
	if err == nil && !found {
		err = ErrNotFound
	}
	return &e, err
}

// List returns the endpoints with ids beyond after, in the order of ids, at most limit.
func (s *Store) List(ctx context.Context, after string, limit int) ([]Endpoint, error) {
	return s.kind.List(ctx, after, limit)
}

// Add keeps a new endpoint, and fills in the times that are zero. It returns a [*TakenError] when the URL or the id is
// in use, and [ErrTooMany] when there are [MaxEndpoints].
func (s *Store) Add(ctx context.Context, e *Endpoint) error {
	err := s.kind.Add(ctx, e.ID, func(now time.Time) Endpoint {
		if e.CreatedAt.IsZero() {
			e.CreatedAt, e.UpdatedAt, e.CountsFrom = now, now, now
		}
		return *e
	})
	if errors.Is(err, record.ErrChanged) {
		return &TakenError{ID: e.ID, Field: fieldID}
	}
	return refused(err)
}

// Change changes an endpoint, alone: no other change comes between. now is the store's time. The events that change
// returns are written together with it. When change returns an error, nothing changes, and that is returned.
func (s *Store) Change(ctx context.Context, id string, change func(*Endpoint, time.Time) ([]events.Event, error)) (
	*Endpoint, error,
) {
	d, err := s.kind.Change(ctx, id, func(d *record.Draft[Endpoint]) error {
		if !d.Exists {
			return ErrNotFound
		}
		happened, err := change(&d.Doc, d.Now)
		for _, e := range happened {
			d.Tell = append(d.Tell, e)
		}
		return err
	})
	if err != nil {
		return nil, refused(err)
	}
	return &d.Doc, nil
}

// Remove removes an endpoint. It returns [ErrNotFound] when there is none.
func (s *Store) Remove(ctx context.Context, id string) error {
	removed, err := s.kind.Remove(ctx, id)
	if err == nil && !removed {
		return ErrNotFound
	}
	return err
}

// refused says in the words of endpoints why one was not written.
func refused(err error) error {
	if taken, ok := errors.AsType[*record.TakenError](err); ok {
		return &TakenError{ID: taken.Key, Field: fieldURL}
	}
	if errors.Is(err, record.ErrTooMany) {
		return ErrTooMany
	}
	return err
}
