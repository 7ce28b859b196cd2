package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/columns"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/store/postgres/outbox"
)

// copySQL takes rows as they come, at little more than half of what insertSQL costs Postgres. An id that is there fails
// all of them. The trigger that notes them in the outbox sees them as it sees those of insertSQL.
const copySQL = "COPY pacer.notifications (" + columns.GivenColumns + ", accepted_at, arrival) FROM STDIN (FORMAT binary)"

// beginCopySQL says the database's time, and takes blocks of arrivals: with defaults for them, COPY would take the rows
// one by one. $1 and $2 are insertSQL's $18 and $19.
const beginCopySQL = `SELECT clock_timestamp(), ARRAY (SELECT nextval('pacer.arrivals') FROM generate_series(1, $2))
FROM set_config('pacer.counted', $1, true) counted, ` + limited.SetLockWait

// optOutsSQL returns what those of some users have opted out of who have.
const optOutsSQL = `
SELECT user_id, opt_out_categories, opt_out_channels FROM pacer.preferences
WHERE user_id = ANY ($1) AND (opt_out_categories <> '{}' OR opt_out_channels <> '{}')`

// errIDTaken says that an id or a key of what was to be copied is there already, or is being accepted, or came twice.
var errIDTaken = errors.New("an id is taken")

// copies reports whether a batch is worth the two round trips more that copying it takes, and whether its ids are new,
// as far as their form tells. Ids that a producer chose come twice when it repeats a batch.
func (a *accepting) copies(batch []*notification.Notification) bool {
	return len(batch) >= a.cfg.CopyLeast &&
		!slices.ContainsFunc(batch, func(n *notification.Notification) bool { return !a.cfg.MadeHere(n.ID) })
}

// copyRows writes all rows of a batch, or none of them.
func (a *accepting) copyRows(ctx context.Context, batch []*notification.Notification) ([]outbox.Inserted, error) {
	conn, err := a.stores.Pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release() // a connection whose transaction is open is closed
	begun, err := a.beginCopy(ctx, conn, batch)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Conn().PgConn().CopyFrom(ctx, bytes.NewReader(columns.Encode(batch, begun.at, begun.arrival)), copySQL); err != nil {
		failed, ok := errors.AsType[*pgconn.PgError](err)
		if ok && failed.Code == limited.UniqueViolation || limited.LockedOut(err) {
			_, err = conn.Exec(ctx, "ROLLBACK")
			return nil, errors.Join(errIDTaken, err)
		}
		return nil, err
	}
	optedOut, err := commitCopy(ctx, conn, batch)
	if err != nil {
		return nil, err
	}
	results := make([]outbox.Inserted, len(batch))
	for i, n := range batch {
		results[i] = outbox.Inserted{
			At: begun.at, Arrival: begun.arrival(i), Fresh: true, OptedOut: optedOut[n.UserID].declines(n),
		}
	}
	return results, nil
}

// begunCopy is when a copy began, and its blocks of arrivals.
type begunCopy struct {
	at     time.Time
	blocks []int64
}

// arrival is that of the i-th row.
func (b begunCopy) arrival(i int) int64 { return b.blocks[i/arrivalBlock] + int64(i%arrivalBlock) }

// beginCopy begins a transaction.
func (a *accepting) beginCopy(ctx context.Context, conn *pgxpool.Conn, batch []*notification.Notification,
) (begun begunCopy, err error) {
	b := &pgx.Batch{} // one round trip
	b.Queue("BEGIN")
	b.Queue(beginCopySQL, a.counted, arrivalBlocks(batch)).QueryRow(func(row pgx.Row) error {
		return row.Scan(&begun.at, &begun.blocks)
	})
	return begun, conn.SendBatch(ctx, b).Close()
}

// optOuts is what a user has opted out of.
type optOuts struct{ categories, channels []string }

// declines reports whether the user has opted out of a notification.
func (o optOuts) declines(n *notification.Notification) bool {
	return slices.Contains(o.categories, n.Category) || slices.Contains(o.channels, string(n.Channel))
}

// commitCopy commits the rows, and returns what their users had opted out of by then.
func commitCopy(ctx context.Context, conn *pgxpool.Conn, batch []*notification.Notification) (
	map[string]optOuts, error,
) {
	users := make([]string, len(batch))
	for i, n := range batch {
		users[i] = n.UserID
	}
	slices.Sort(users)
	found := map[string]optOuts{}
	b := &pgx.Batch{} // one round trip; when the first fails, the second is not run
	b.Queue(optOutsSQL, slices.Compact(users)).Query(func(rows pgx.Rows) error {
		var user string
		var out optOuts
		_, err := pgx.ForEachRow(rows, []any{&user, &out.categories, &out.channels}, func() error {
			found[user] = out
			return nil
		})
		return err
	})
	b.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return fmt.Errorf("the database answered COMMIT with %s", tag)
		}
		return nil
	})
	return found, conn.SendBatch(ctx, b).Close()
}
