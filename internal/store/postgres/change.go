package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/columns"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/store/postgres/outbox"
	"github.com/pacer-notify/pacer/internal/throttle"
)

const (
	// changeableSQL reads what a change begins with.
	changeableSQL = `SELECT n.status IN ('waiting', 'retrying') AND n.digest_id = '',` + columns.ContentColumns + `
FROM pacer.notifications n WHERE n.id = $1`
	// changeSQL changes a notification that waits, if it still has the priority and the moments that it was read with,
	// and notes it in the outbox. With $6 it waits for nothing but its send_at, which is $7 on the limiter's clock: a
	// grant from before, for an earlier moment, can't be claimed. Whoever tells Redis of an earlier change has its note
	// locked: this one is noted after that.
	changeSQL = `
WITH begun AS MATERIALIZED (SELECT ` + limited.SetLockWait + `
), changed AS (
	UPDATE pacer.notifications n SET priority = $2, send_at = $3, expires_at = $4, released = n.released OR $5,
		status = CASE WHEN $6 THEN 'waiting' ELSE n.status END,
		not_before = CASE WHEN $6 THEN $7 ELSE n.not_before END,
		changes = CASE WHEN octet_length(n.changes) > 4096 THEN n.changes ELSE n.changes ||
			(extract(epoch FROM clock_timestamp()) * 1000000)::bigint || ' ' || $8 || E'\n' END
	FROM begun
	WHERE n.id = ANY (ARRAY[$1]) AND n.status IN ('waiting', 'retrying') AND n.digest_id = '' AND n.priority = $9
		AND n.send_at IS NOT DISTINCT FROM $10 AND n.expires_at IS NOT DISTINCT FROM $11
	RETURNING n.id
), noted AS (
	INSERT INTO pacer.outbox AS o (key, ids) SELECT '^' || id, ARRAY[id] FROM changed
	ON CONFLICT (key) DO UPDATE SET due_at = excluded.due_at
)
SELECT count(*) > 0 FROM changed`
	// groupSQL lists what has not ended of a user with a group key.
	groupSQL = `
SELECT n.id FROM pacer.notifications n
WHERE n.user_id = $1 AND n.group_key = $2 AND n.group_key <> ''
	AND n.status IN ('waiting', 'retrying', 'sending')`
	// changeTries is how often a change is tried when others change the same notification.
	changeTries = 20
)

// Change changes a notification that waits, in Postgres and then in its agenda. What the change can't be applied to is
// a [notification.FieldError]; else it returns [notification.ErrNotFound] or [notification.ErrNotWaiting].
func (s *Store) Change(ctx context.Context, id string, c notification.Change) error {
	for range changeTries {
		done, err := s.tryChange(ctx, id, &c)
		if err != nil {
			return err
		}
		if done {
			s.changes.Tell(ctx, id)
			return nil
		}
	}
	return fmt.Errorf("change notification %s: others changed it %d times meanwhile", id, changeTries)
}

// tryChange changes a notification in Postgres, and reports whether nobody else did meanwhile.
func (s *Store) tryChange(ctx context.Context, id string, c *notification.Change) (done bool, err error) {
	n, err := s.changeable(ctx, id)
	if err != nil {
		return false, err
	}
	was := *n
	if err := c.Apply(n, time.Now()); err != nil {
		return false, err
	}
	var notBefore *int64
	if n.SendAt.After(time.Now()) {
		notBefore = new(int64)
		*notBefore = int64(throttle.MicrosOf(n.SendAt))
	}
	err = s.Stores.Changes.Do(ctx, func() error {
		ctx, cancel := limited.Bounded(ctx, s.Stores.StatementTimeout)
		defer cancel()
		return s.Stores.Pool.QueryRow(ctx, changeSQL, id, n.Priority, columns.Timestamp(n.SendAt),
			columns.Timestamp(n.ExpiresAt), c.Release, c.Waits(), notBefore, c.Event(), was.Priority,
			columns.Timestamp(was.SendAt), columns.Timestamp(was.ExpiresAt)).Scan(&done)
	})
	if err != nil {
		return false, limited.Describe("change notification "+id, err)
	}
	return done, nil
}

// changeable reads a notification that waits.
func (s *Store) changeable(ctx context.Context, id string) (*notification.Notification, error) {
	var n notification.Notification
	var given columns.Content
	var waits bool
	err := s.Stores.DB.QueryRow(ctx, changeableSQL, id).Scan(given.Into([]any{&waits}, &n)...)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, notification.ErrNotFound
	case err != nil:
		return nil, limited.Describe("read notification "+id, err)
	case !waits:
		return nil, notification.ErrNotWaiting
	}
	given.Fill(&n)
	return &n, nil
}

// CancelGroup ends what waits of a user with a group key, and returns how many it ended, also when it fails.
func (s *Store) CancelGroup(ctx context.Context, userID, groupKey string) (n int, err error) {
	rows, err := s.Stores.DB.Query(ctx, groupSQL, userID, groupKey)
	return endListed(ctx, s.ends, rows, err, notification.ReasonCancelled)
}

// endListed ends for a reason what waits of the notifications that a statement lists, and returns how many it ended,
// also when it fails.
func endListed(ctx context.Context, ends *outbox.Ends, rows pgx.Rows, err error, reason string) (int, error) {
	var ids []string
	if err == nil {
		ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		return 0, limited.Describe("look for what is to end as "+reason, err)
	}
	return ends.EndAll(ctx, ids, reason)
}
