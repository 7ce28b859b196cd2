package rebuild

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

// partitionsSQL gives how many partitions there are: the first build wrote a row for each.
const partitionsSQL = `SELECT coalesce(max(partition) FILTER (WHERE rebuilt_at > 0) + 1, 0) FROM pacer.partitions`

// surplusSQL notes that there are no longer partitions from a number on. A process of the one-node set-up may have had
// more than the deployment that took over its database. Their rows stay: were they there once more, their epochs and
// the counts that belong to these would go on.
const surplusSQL = `UPDATE pacer.partitions SET rebuilt_at = 0 WHERE partition >= $1 AND rebuilt_at > 0`

// Partitions tells how many partitions were last built from a database; 0 when none ever was. It needs no Store, since
// the agendas under that have to be told.
func Partitions(ctx context.Context, pool *pgxpool.Pool) (int, error) {
	var partitions int
	if err := pool.QueryRow(ctx, partitionsSQL).Scan(&partitions); err != nil {
		return 0, limited.Describe("read the number of partitions", err)
	}
	return partitions, nil
}
