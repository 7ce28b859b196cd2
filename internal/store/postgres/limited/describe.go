package limited

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/notification"
)

// Querier is a pool, a [DB] or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Bounded gives a context with a time-out for a statement that must not be interrupted when its caller goes away.
func Bounded(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), timeout)
}

// Describe adds to an error of the database, if there is one, what was being done.
func Describe(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: Postgres does not respond: %w", what, err)
	case LockedOut(err):
		return &notification.LockedError{Doing: what, Err: err}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// UniqueViolation is the code of Postgres's error for a key that is taken.
const UniqueViolation = "23505"
