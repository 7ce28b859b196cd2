package records

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/record"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

const (
	// unnumberedSQL reports whether a log has lines without numbers.
	unnumberedSQL = `SELECT EXISTS (SELECT FROM pacer.lines WHERE log = $1 AND number IS NULL)`
	// happenedSQL reports it for the log whose lines come from pacer.happened, too.
	happenedSQL = unnumberedSQL + ` OR (SELECT id FROM pacer.happened ORDER BY id LIMIT 1) IS NOT NULL`
	// takeHappenedSQL moves some of what happened into a log, with numbers. Parameters: log, how many at most.
	takeHappenedSQL = `
WITH fresh AS (
	DELETE FROM pacer.happened WHERE id = ANY (ARRAY(SELECT id FROM pacer.happened ORDER BY id LIMIT $2)) RETURNING *
), latest AS (
	UPDATE pacer.numbers SET value = value + (SELECT count(*) FROM fresh) WHERE name = $1 RETURNING value
)
INSERT INTO pacer.lines (log, number, at, line)
SELECT $1, (SELECT value FROM latest) - count(*) OVER () + row_number() OVER (ORDER BY id), at,
	jsonb_strip_nulls(jsonb_build_object('id', gen_random_uuid(), 'type', type, 'notification_id', notification_id,
		'device_id', device_id, 'user_id', user_id, 'category', category, 'status', status,
		'reason', nullif(reason, ''), 'attempt', nullif(attempt, 0), 'policy_version', nullif(policy_version, '')))
FROM fresh ORDER BY id`
	// orderLinesSQL has those who number lines do so one after the other, until their transactions have ended.
	orderLinesSQL = `SELECT FROM pacer.numbers WHERE name = $1 FOR UPDATE`
	// numberLinesSQL numbers some lines. Parameters: log, how many at most.
	numberLinesSQL = `
WITH fresh AS (
	SELECT id, row_number() OVER (ORDER BY id) AS place
	FROM (SELECT id FROM pacer.lines WHERE log = $1 AND number IS NULL ORDER BY id LIMIT $2) AS oldest
), latest AS (
	UPDATE pacer.numbers SET value = value + (SELECT count(*) FROM fresh) WHERE name = $1 RETURNING value
)
UPDATE pacer.lines l SET number = (SELECT value FROM latest) - (SELECT count(*) FROM fresh) + f.place
FROM fresh f WHERE l.id = ANY (ARRAY[f.id])`
	// numberAtOnce is how many lines get numbers at once.
	numberAtOnce = 1000
)

// number numbers the lines that have no numbers yet.
func (r *Store) number(ctx context.Context, log record.Log) error {
	var some bool
	var row pgx.Row
	if log.Happened {
		row = r.pool.QueryRow(ctx, happenedSQL, log.Name)
	} else {
		row = r.pool.QueryRow(ctx, unnumberedSQL, log.Name)
	}
	if err := row.Scan(&some); err != nil || !some {
		return limited.Describe("look for new lines of the "+log.Name+" log", err)
	}
	return r.inBatch(ctx, "number the lines of the "+log.Name+" log", func(b *pgx.Batch) {
		b.Queue(orderLinesSQL, log.Name)
		if log.Happened {
			b.Queue(takeHappenedSQL, log.Name, numberAtOnce)
		}
		b.Queue(numberLinesSQL, log.Name, numberAtOnce)
	})
}

const (
	// appendSQL writes a line. Parameters: log, line.
	appendSQL = `INSERT INTO pacer.lines (log, line) VALUES ($1, $2)`
	// linesSQL returns lines in order. Parameters: log, the number before, limit.
	linesSQL = `SELECT number, at, line FROM pacer.lines WHERE log = $1 AND number > $2 ORDER BY number LIMIT $3`
	// newestLinesSQL returns the newest first. Parameters: log, limit.
	newestLinesSQL = `
SELECT number, at, line FROM pacer.lines WHERE log = $1 AND number > 0 ORDER BY number DESC LIMIT $2`
	// latestSQL returns the latest number. Parameter: log.
	latestSQL = `SELECT value FROM pacer.numbers WHERE name = $1`
	// skipSQL has the next line numbered beyond a number. Parameters: log, number.
	skipSQL = `UPDATE pacer.numbers SET value = greatest(value, $2) WHERE name = $1`
	// forgetLinesSQL removes some of the oldest lines that were kept long enough. Parameters: log; how long, in
	// seconds; how many are looked at.
	forgetLinesSQL = `
DELETE FROM pacer.lines WHERE id = ANY (ARRAY(
	SELECT id FROM (SELECT id, at FROM pacer.lines WHERE log = $1 AND number > 0 ORDER BY number LIMIT $3) AS oldest
	WHERE at < clock_timestamp() - $2::bigint * interval '1 second'))`
	// forgetAtOnce is how many lines are looked at to forget those that are old.
	forgetAtOnce = 1000
)

// Append implements [record.Logs].
func (r *Store) Append(ctx context.Context, log record.Log, text []byte) error {
	if _, err := r.pool.Exec(ctx, appendSQL, log.Name, text); err != nil {
		return limited.Describe("write the "+log.Name+" log", err)
	}
	_ = r.number(ctx, log) // or whoever reads it does
	return nil
}

// After implements [record.Logs].
func (r *Store) After(ctx context.Context, log record.Log, number int64, limit int) ([]record.Line, error) {
	if err := r.number(ctx, log); err != nil {
		return nil, err
	}
	rows, err := r.pool.Query(ctx, linesSQL, log.Name, number, limit)
	return collect[record.Line]("read the "+log.Name+" log", rows, err)
}

// Newest implements [record.Logs].
func (r *Store) Newest(ctx context.Context, log record.Log, limit int) ([]record.Line, error) {
	if err := r.number(ctx, log); err != nil {
		return nil, err
	}
	rows, err := r.pool.Query(ctx, newestLinesSQL, log.Name, limit)
	return collect[record.Line]("read the "+log.Name+" log", rows, err)
}

// Latest implements [record.Logs].
func (r *Store) Latest(ctx context.Context, log record.Log) (latest int64, err error) {
	if err := r.number(ctx, log); err != nil {
		return 0, err
	}
	err = r.pool.QueryRow(ctx, latestSQL, log.Name).Scan(&latest)
	return latest, limited.Describe("look up the latest line of the "+log.Name+" log", err)
}

// Skip has the next line numbered beyond those that another store has given out. It may be repeated.
func (r *Store) Skip(ctx context.Context, log record.Log, number int64) error {
	_, err := r.pool.Exec(ctx, skipSQL, log.Name, number)
	return limited.Describe("continue the numbers of the "+log.Name+" log", err)
}

// Forget implements [record.Logs].
func (r *Store) Forget(ctx context.Context, log record.Log) (more bool, err error) {
	tag, err := r.pool.Exec(ctx, forgetLinesSQL, log.Name, int64(log.Keep.Seconds()), forgetAtOnce)
	return tag.RowsAffected() == forgetAtOnce, limited.Describe("forget old lines of the "+log.Name+" log", err)
}
