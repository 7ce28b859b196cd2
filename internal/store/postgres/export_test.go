package postgres

import "golang.org/x/sync/semaphore"

// PlaceAtMost sets how many notifications may be on their way to Redis at once.
func (r *Store) PlaceAtMost(n int64) { r.placer.room = semaphore.NewWeighted(n) }
