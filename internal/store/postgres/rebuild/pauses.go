package rebuild

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

// pausedPartitionsSQL gives the partitions that an operator has paused.
const pausedPartitionsSQL = `
SELECT body ->> 'name' FROM pacer.records WHERE kind = 'pause' AND body ->> 'kind' = 'partition'`

// restorePauses pauses the partitions that are to stay paused, before any of them goes on: whoever follows the pauses
// would pause them within a second, but they would send until then. A pause that ends meanwhile is undone in the same
// way.
func (r *run) restorePauses(ctx context.Context) error {
	rows, err := r.by.stores.DB.Query(ctx, pausedPartitionsSQL)
	if err != nil {
		return limited.Describe("read which partitions are paused", err)
	}
	paused, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return limited.Describe("read which partitions are paused", err)
	}
	for _, name := range paused {
		partition, err := strconv.Atoi(name)
		if err != nil || !r.rebuilds(partition) {
			continue
		}
		if err := r.by.stores.Agendas.RestorePause(ctx, r.token, partition); err != nil {
			return err
		}
	}
	return nil
}
