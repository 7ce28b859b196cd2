package postgres

import (
	"context"

	"golang.org/x/sync/semaphore"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

// RebuildLock is the advisory lock of the process that rebuilds.
const RebuildLock = rebuildLock

// NodeLock is the advisory lock of a process that has its database to itself.
const NodeLock = nodeLock

// ClaimLock is the advisory lock of the claims under way.
const ClaimLock = claimLock

// PlaceAtMost sets how many notifications may be on their way to Redis at once.
func (s *Store) PlaceAtMost(n int64) { s.placer.room = semaphore.NewWeighted(n) }

// Token names a grant in its claim.
func Token(g *dispatch.Grant) string { return token(g) }

// Unclaim undoes the claim of a grant.
func (s *Store) Unclaim(ctx context.Context, g *dispatch.Grant) error { return s.unclaim(ctx, g) }

// Calm reports whether a round would find nothing to do.
func (r *Relay) Calm(ctx context.Context) bool { return r.calm(ctx) }
