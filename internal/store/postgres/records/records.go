// Package records keeps versioned documents and logs in Postgres.
package records

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/internal/record"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

// Store keeps records and logs in Postgres. It implements [record.Store].
type Store struct{ pool *pgxpool.Pool }

// New makes a store on a database that is migrated.
func New(pool *pgxpool.Pool) *Store { return &Store{pool} }

// recordPatience is how long a statement waits for another transaction's lock.
const recordPatience = "1s"

// inBatch runs statements in one transaction and one round trip.
func (r *Store) inBatch(ctx context.Context, what string, queue func(*pgx.Batch)) error {
	b := &pgx.Batch{}
	b.Queue("SELECT set_config('lock_timeout', $1, true)", recordPatience)
	queue(b)
	if err := r.pool.SendBatch(ctx, b).Close(); err != nil {
		return limited.Describe(what, err)
	}
	return nil
}

// collect reads rows whose columns are the fields of T.
func collect[T any](what string, rows pgx.Rows, err error) (all []T, _ error) {
	if err == nil {
		all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	}
	return all, limited.Describe(what, err)
}

// Now implements [record.Documents].
func (r *Store) Now(ctx context.Context) (now time.Time, err error) {
	if err := r.pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return now, limited.Describe("ask Postgres for the time", err)
	}
	return now.UTC(), nil
}

// recordSQL returns the time, and a record if there is one. Parameters: kind, key.
const recordSQL = `
SELECT clock_timestamp(), coalesce(r.version, 0), r.body
FROM (SELECT) one LEFT JOIN pacer.records r ON r.kind = $1 AND r.key = $2`

// Get implements [record.Documents].
func (r *Store) Get(ctx context.Context, kind, key string) (found record.Record, now time.Time, err error) {
	found.Key = key
	if err := r.pool.QueryRow(ctx, recordSQL, kind, key).Scan(&now, &found.Version, &found.Body); err != nil {
		return found, now, limited.Describe("look up "+kind+" "+key, err)
	}
	return found, now.UTC(), nil
}

const (
	// recordsSQL lists the records of a kind. Parameters: kind, the key before, limit.
	recordsSQL = `
SELECT key, 0::bigint, body FROM pacer.records WHERE kind = $1 AND key > $2 AND body IS NOT NULL
ORDER BY key LIMIT nullif($3::int, 0)`
	// recordChangesSQL lists the changes of a kind. Parameters: kind, the first number, limit.
	recordChangesSQL = `
SELECT key, version, body FROM pacer.records WHERE kind = $1 AND version >= $2 ORDER BY version LIMIT $3`
)

// List implements [record.Documents].
func (r *Store) List(ctx context.Context, kind, after string, limit int) ([]record.Record, error) {
	rows, err := r.pool.Query(ctx, recordsSQL, kind, after, limit)
	return collect[record.Record]("list each "+kind, rows, err)
}

// Changes implements [record.Documents].
func (r *Store) Changes(ctx context.Context, kind string, from int64, limit int) ([]record.Record, error) {
	rows, err := r.pool.Query(ctx, recordChangesSQL, kind, from, limit)
	return collect[record.Record]("read the changes of each "+kind, rows, err)
}

// The statements that write a record, in one transaction.
const (
	// takeVersionSQL takes the number of the change. Until the transaction ends, other writers of the kind wait.
	takeVersionSQL = `SELECT pacer.next_version($1)`
	// forgetRecordsSQL forgets a record, and some others, if they were removed long ago. It is a statement of its own:
	// an insertion in the same one would still meet their rows. Parameters: kind, key, for how long a removed one is
	// known in µs, how many others to forget.
	forgetRecordsSQL = `
WITH old AS (
	SELECT key, version FROM pacer.records WHERE kind = $1 AND body IS NULL AND key <> ''
		AND version < (extract(epoch FROM now()) * 1000000)::bigint - $3::bigint
), forgotten AS (
	DELETE FROM pacer.records WHERE kind = $1 AND key = ANY (ARRAY(
		(SELECT key FROM old WHERE key = $2) UNION ALL (SELECT key FROM old ORDER BY version LIMIT $4)))
	RETURNING version
)
INSERT INTO pacer.records AS r (kind, key, version) SELECT $1, '', max(version) FROM forgotten HAVING count(*) > 0
ON CONFLICT (kind, key) DO UPDATE SET version = greatest(r.version, excluded.version)`
	// writeRecordSQL writes a record that has still the version that was read, and lines. It returns the new version, 0
	// when it wrote nothing, and whether there was a record. Parameters: kind, key, the version that was read (0 for
	// none), body, alias, how many there may be (0 for any number), log, lines.
	writeRecordSQL = `
WITH written AS (
	INSERT INTO pacer.records AS r (kind, key, version, body, alias)
	SELECT $1, $2, (SELECT value FROM pacer.numbers WHERE name = $1), $4::json, nullif($5::text, '')
	WHERE CASE WHEN $3::bigint > 0 THEN EXISTS (SELECT FROM pacer.records WHERE kind = $1 AND key = $2)
		ELSE $6::int = 0 OR (SELECT count(*) FROM pacer.records WHERE kind = $1 AND body IS NOT NULL) < $6::int END
	ON CONFLICT (kind, key) DO UPDATE SET version = excluded.version, body = excluded.body, alias = excluded.alias
		WHERE r.version = $3::bigint
	RETURNING version
), told AS (
	INSERT INTO pacer.lines (log, line)
	SELECT $7, line FROM unnest($8::json[]) WITH ORDINALITY AS of (line, place)
	WHERE EXISTS (SELECT FROM written) ORDER BY place
)
SELECT coalesce((SELECT version FROM written), 0), EXISTS (SELECT FROM pacer.records WHERE kind = $1 AND key = $2)`
	// aliasSQL returns who has an alias. Parameters: kind, alias.
	aliasSQL = `SELECT key FROM pacer.records WHERE kind = $1 AND alias = $2`
)

// Write implements [record.Documents].
func (r *Store) Write(ctx context.Context, w record.Write) (version int64, err error) {
	var exists bool
	what := "write " + w.Kind + " " + w.Key
	err = r.inBatch(ctx, what, func(b *pgx.Batch) {
		b.Queue(takeVersionSQL, w.Kind)
		b.Queue(forgetRecordsSQL, w.Kind, w.Key, w.Keep.Microseconds(), record.ForgetAtOnce)
		b.Queue(writeRecordSQL, w.Kind, w.Key, w.Was, w.Body, w.Alias, w.Most, w.Log.Name, w.Lines).
			QueryRow(func(row pgx.Row) error { return row.Scan(&version, &exists) })
	})
	if violation, ok := errors.AsType[*pgconn.PgError](err); ok && violation.Code == limited.UniqueViolation {
		return 0, r.taken(ctx, &w)
	}
	switch {
	case err != nil:
		return 0, err
	case version == 0 && (exists || w.Was > 0):
		return 0, record.ErrChanged
	case version == 0:
		return 0, record.ErrTooMany
	}
	if len(w.Lines) > 0 {
		_ = r.number(ctx, w.Log) // or whoever reads the log does it
	}
	return version, nil
}

// taken says who has the alias of a record that was not written.
func (r *Store) taken(ctx context.Context, w *record.Write) error {
	var owner string
	switch err := r.pool.QueryRow(ctx, aliasSQL, w.Kind, w.Alias).Scan(&owner); {
	case errors.Is(err, pgx.ErrNoRows):
		return record.ErrChanged // whoever had it has given it up
	case err != nil:
		return limited.Describe("look up who has the alias of "+w.Kind+" "+w.Key, err)
	}
	return &record.TakenError{Key: owner}
}
