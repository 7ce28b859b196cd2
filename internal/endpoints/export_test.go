package endpoints

import (
	"context"
	"time"
)

// Note notes what is due.
func (d *Directory) Note(ctx context.Context) { d.note(ctx, false) }

// Keeping is the store when it is known for so long that an endpoint was removed.
func (s *Store) Keeping(keep time.Duration) *Store {
	kind := s.kind
	kind.Keep = keep
	return &Store{kind}
}
