package rebuild

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/agenda/maintenance"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

// Each partition in Redis remembers a mark of Postgres: a random name, which a relay wrote there first. A database
// that lacks the mark is another one, or an older state of this one: it was restored from a backup, or has lost its
// latest commits in a fail-over. A mark also names the history of the server on which it was written, since a fail-over
// may lose commits that came after the mark. Another history rebuilds the partition. A relay writes a new mark when it
// looks and something was written since the last one.

// marksSQL gives the epochs of the partitions, which of the marks $1 belong to the present history, and a mark: with $2
// a new one if it is due, else the latest.
const marksSQL = `
WITH ours AS MATERIALIZED (
	SELECT mark FROM pacer.marks WHERE mark = ANY ($1::text[]) AND (history = '' OR pacer.history() IN ('', history))
), latest AS MATERIALIZED (
	SELECT mark, next_xid, alone, at FROM pacer.marks ORDER BY id DESC LIMIT 1
), made AS (
	INSERT INTO pacer.marks (mark) SELECT split_part(mark, '.', 1) || '.' || gen_random_uuid() FROM latest
	WHERE $2 AND EXISTS (SELECT FROM ours) AND at NOT BETWEEN now() - interval '400 ms' AND now()
		AND NOT (alone AND next_xid = pg_snapshot_xmax(pg_current_snapshot())::text::bigint)
	RETURNING mark
)
SELECT coalesce(array_agg(partition), '{}'), coalesce(array_agg(epoch), '{}'), ARRAY (SELECT mark FROM ours),
	coalesce((SELECT mark FROM made), (SELECT mark FROM latest), ''),`

const (
	lostSQL = marksSQL + " false FROM pacer.partitions"
	// calmSQL also reports whether a step of a round would find something: what is due in the outbox or unchecked, two
	// tallies to fold, and, if $3, what others accepted. Each is the first in the order of an index, because EXISTS
	// alone may read a table.
	calmSQL = marksSQL + `
	(SELECT due_at FROM pacer.outbox WHERE NOT unchecked AND due_at <= now() ORDER BY due_at LIMIT 1) IS NOT NULL
	OR (SELECT key FROM pacer.outbox WHERE unchecked ORDER BY refused_at, key LIMIT 1) IS NOT NULL
	OR (SELECT id FROM pacer.tallies ORDER BY id OFFSET 1 LIMIT 1) IS NOT NULL
	OR $3 AND (SELECT id FROM pacer.accepted_elsewhere ORDER BY id LIMIT 1) IS NOT NULL
FROM pacer.partitions`
)

// MarkSQL writes the mark of partitions that are rebuilt.
const MarkSQL = `
INSERT INTO pacer.marks (mark) SELECT coalesce(
	(SELECT split_part(mark, '.', 1) FROM pacer.marks ORDER BY id DESC LIMIT 1),
	gen_random_uuid()::text) || '.' || gen_random_uuid()
RETURNING mark`

// Look is what Redis says of the partitions that could be reached, and what Postgres says of them after that.
type Look struct {
	builds map[int]maintenance.Built
	epochs map[int]int64
	ours   map[string]bool // which of their marks belong to Postgres's present history
	mark   string          // the latest
	Found  bool            // there is something to do
}

// look asks Postgres with lostSQL about partitions that were built so.
func (r *Rebuilder) look(ctx context.Context, builds map[int]maintenance.Built, marks bool) (*Look, error) {
	return r.read(ctx, builds, marks, r.stores.DB.QueryRow(ctx, lostSQL, marksOf(builds), marks))
}

// LookCalm does the same with calmSQL. counts says whether this process counts what others accepted.
func (r *Rebuilder) LookCalm(ctx context.Context, builds map[int]maintenance.Built, counts bool) (*Look, error) {
	row := r.stores.DB.QueryRow(ctx, calmSQL, marksOf(builds), true, counts)
	return r.read(ctx, builds, true, row)
}

// marksOf lists the marks of partitions, each once.
func marksOf(builds map[int]maintenance.Built) []string {
	marks := map[string]bool{}
	for _, built := range builds {
		marks[built.Mark] = true
	}
	return slices.Collect(maps.Keys(marks))
}

// read reads what Postgres says. With marks, it has the partitions remember the latest mark.
func (r *Rebuilder) read(
	ctx context.Context, builds map[int]maintenance.Built, marks bool, row pgx.Row,
) (*Look, error) {
	seen := &Look{builds: builds, epochs: map[int]int64{}, ours: map[string]bool{}}
	var partitions []int
	var numbers []int64
	var ours []string
	if err := row.Scan(&partitions, &numbers, &ours, &seen.mark, &seen.Found); err != nil {
		return nil, limited.Describe("read the epochs and marks", err)
	}
	for i, partition := range partitions {
		seen.epochs[partition] = numbers[i]
	}
	for _, mark := range ours {
		seen.ours[mark] = true
	}
	if !marks {
		return seen, nil
	}
	behind := map[int]string{}
	for partition, built := range builds {
		if seen.ours[built.Mark] && built.Mark != seen.mark {
			behind[partition] = built.Mark
		}
	}
	return seen, r.stores.Agendas.Mark(ctx, behind, seen.mark)
}

// Lost reports whether a partition has to be rebuilt.
func (l *Look) Lost(partition int, identity string) bool {
	built := l.builds[partition]
	return built.Epoch != keyspace.NewEpoch(l.epochs[partition], identity) || !l.ours[built.Mark]
}

// kept is what of a partition a rebuild need not replace. What Redis ended under another history may be open in this
// one. But Redis has counted every admission that an older state of the same database has, and those that it lacks.
func (l *Look) kept(partition int) maintenance.Kept {
	mark := l.builds[partition].Mark
	of := func(mark string) string { name, _, _ := strings.Cut(mark, "."); return name }
	return maintenance.Kept{Ends: l.ours[mark], Windows: !l.ours[mark] && mark != "" && of(mark) == of(l.mark)}
}
