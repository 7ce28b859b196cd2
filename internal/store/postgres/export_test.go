package postgres

import (
	"context"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

// Unclaim undoes the claim of a grant.
func (s *Store) Unclaim(ctx context.Context, g *dispatch.Grant) error { return s.unclaim(ctx, g) }
