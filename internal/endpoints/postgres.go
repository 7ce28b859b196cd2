package endpoints

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/internal/events"
)

// Postgres keeps endpoints in Postgres.
type Postgres struct{ pool *pgxpool.Pool }

// NewPostgres makes a store on a database that is migrated.
func NewPostgres(pool *pgxpool.Pool) *Postgres { return &Postgres{pool} }

// Position implements [Store].
func (p *Postgres) Position(ctx context.Context) (version int64, now time.Time, err error) {
	err = p.pool.QueryRow(ctx, `SELECT value, clock_timestamp() FROM pacer.numbers WHERE name = 'endpoint'`).
		Scan(&version, &now)
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("look for changes of webhook endpoints: %w", err)
	}
	return version, now.UTC(), nil
}

// Changes implements [Store].
func (p *Postgres) Changes(ctx context.Context, after int64, limit int) ([]Endpoint, error) {
	return p.read(ctx, "read the changes of webhook endpoints", `SELECT endpoint, version FROM pacer.webhook_endpoints
		WHERE version > $1 ORDER BY version LIMIT $2`, after, limit)
}

// List implements [Store].
func (p *Postgres) List(ctx context.Context, after string, limit int) ([]Endpoint, error) {
	return p.read(ctx, "list the webhook endpoints", `SELECT endpoint, version FROM pacer.webhook_endpoints
		WHERE id > $1 AND url IS NOT NULL ORDER BY id LIMIT $2`, after, limit)
}

func (p *Postgres) read(ctx context.Context, what, sql string, args ...any) ([]Endpoint, error) {
	rows, err := p.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Endpoint, error) {
		var text []byte
		var version int64
		if err := row.Scan(&text, &version); err != nil {
			return Endpoint{}, err
		}
		return decode(text, version)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return all, nil
}

// Get implements [Store].
func (p *Postgres) Get(ctx context.Context, id string) (*Endpoint, error) {
	e, _, err := p.get(ctx, id)
	return e, err
}

// get returns an endpoint, and the time.
func (p *Postgres) get(ctx context.Context, id string) (*Endpoint, time.Time, error) {
	var text []byte
	var version int64
	var now time.Time
	err := p.pool.QueryRow(ctx, `SELECT endpoint, version, clock_timestamp() FROM pacer.webhook_endpoints
		WHERE id = $1 AND url IS NOT NULL`, id).Scan(&text, &version, &now)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, now, ErrNotFound
	case err != nil:
		return nil, now, fmt.Errorf("look up a webhook endpoint: %w", err)
	}
	e, err := decode(text, version)
	return &e, now.UTC(), err
}

// The statements that add an endpoint, in one transaction.
const (
	// alone has other additions and changes wait until this one has ended, as taking a number does. Two that
	// forget the same endpoints at once could end in a deadlock.
	alone = `SELECT FROM pacer.numbers WHERE name = 'endpoint' FOR UPDATE`
	// forgetSQL forgets an endpoint, and some others, if they were removed long ago. It is a statement of its own:
	// an insertion in the same one would still meet their rows. Parameters: id, how long one that was removed is
	// known in seconds, how many others to forget.
	forgetSQL = `
WITH old AS (
	SELECT id, removed_at FROM pacer.webhook_endpoints
	WHERE removed_at < clock_timestamp() - $2 * interval '1 second'
)
DELETE FROM pacer.webhook_endpoints WHERE id = ANY (ARRAY(
	(SELECT id FROM old WHERE id = $1) UNION ALL (SELECT id FROM old ORDER BY removed_at LIMIT $3)))`
	// addSQL adds an endpoint, unless there are too many, or its URL or id is in use. Parameters: id, URL,
	// endpoint, how many there may be.
	addSQL = `
INSERT INTO pacer.webhook_endpoints (id, url, endpoint, version)
SELECT $1, $2, $3::text::jsonb, pacer.next_number('endpoint')
WHERE (SELECT count(*) FROM pacer.webhook_endpoints WHERE url IS NOT NULL) < $4
ON CONFLICT DO NOTHING RETURNING version`
)

// Add implements [Store].
func (p *Postgres) Add(ctx context.Context, e *Endpoint) error {
	_, now, err := p.Position(ctx)
	if err != nil {
		return err
	}
	e.beginAt(now)
	text, err := encode(e)
	if err != nil {
		return err
	}
	added := false
	statements := &pgx.Batch{} // one round trip, one transaction
	statements.Queue(alone)
	statements.Queue(forgetSQL, e.ID, int(removedKept.Seconds()), forgetAtOnce)
	statements.Queue(addSQL, e.ID, Normal(e.URL), text, MaxEndpoints).Query(func(rows pgx.Rows) error {
		if added = rows.Next(); added {
			return rows.Scan(&e.Version)
		}
		return rows.Err()
	})
	if err := p.pool.SendBatch(ctx, statements).Close(); err != nil {
		return fmt.Errorf("write webhook endpoint %s: %w", e.ID, err)
	}
	if added {
		return nil
	}
	if err := p.taken(ctx, e); err != nil {
		return err
	}
	return ErrTooMany
}

// taken returns a [*TakenError] when the URL or the id of an endpoint is in use.
func (p *Postgres) taken(ctx context.Context, e *Endpoint) error {
	var owner string
	err := p.pool.QueryRow(ctx, `SELECT id FROM pacer.webhook_endpoints WHERE url = $1 OR id = $2
		ORDER BY id = $2 DESC LIMIT 1`, Normal(e.URL), e.ID).Scan(&owner)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("look up a webhook endpoint: %w", err)
	}
	return takenBy(owner, e.ID)
}

// changeSQL changes an endpoint that is still as it was read, and writes its events. Parameters: id, the version that
// was read, URL (NULL when it is removed), endpoint, events.
const changeSQL = `
WITH changed AS (
	UPDATE pacer.webhook_endpoints SET url = $3, endpoint = $4::text::jsonb, version = pacer.next_number('endpoint'),
		removed_at = CASE WHEN $3::text IS NULL THEN clock_timestamp() END
	WHERE id = $1 AND version = $2 RETURNING version
), told AS (
	INSERT INTO pacer.events (event) SELECT event::jsonb FROM unnest($5::text[]) WITH ORDINALITY AS of (event, place)
	WHERE EXISTS (SELECT FROM changed) ORDER BY place
)
SELECT version FROM changed`

// Change implements [Store].
func (p *Postgres) Change(ctx context.Context, id string, change func(*Endpoint, time.Time) ([]events.Event, error)) (
	*Endpoint, error,
) {
	return retried(func() (*Endpoint, error) {
		e, now, err := p.get(ctx, id)
		if err != nil {
			return nil, err
		}
		version := e.Version
		happened, err := change(e, now)
		if errors.Is(err, errUnchanged) {
			return e, nil
		}
		if err != nil {
			return nil, err
		}
		return e, p.save(ctx, e, version, happened)
	})
}

// save writes an endpoint that had this version.
func (p *Postgres) save(ctx context.Context, e *Endpoint, version int64, happened []events.Event) error {
	text, err := encode(e)
	if err != nil {
		return err
	}
	told := make([]string, len(happened))
	for i := range happened {
		event, err := json.Marshal(happened[i])
		if err != nil {
			return fmt.Errorf("encode an event: %w", err)
		}
		told[i] = string(event)
	}
	var url *string
	if !e.Removed {
		normal := Normal(e.URL)
		url = &normal
	}
	err = p.pool.QueryRow(ctx, changeSQL, e.ID, version, url, text, told).Scan(&e.Version)
	if violation, ok := errors.AsType[*pgconn.PgError](err); ok && violation.Code == uniqueViolation {
		if err := p.taken(ctx, &Endpoint{URL: e.URL}); err != nil {
			return err
		}
		return errTryAgain // whoever had the URL has given it up
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return errTryAgain
	case err != nil:
		return fmt.Errorf("write webhook endpoint %s: %w", e.ID, err)
	}
	return nil
}

// uniqueViolation is Postgres's code for a value that another row has already.
const uniqueViolation = "23505"

// Remove implements [Store].
func (p *Postgres) Remove(ctx context.Context, id string) error {
	_, err := p.Change(ctx, id, removal)
	return err
}
