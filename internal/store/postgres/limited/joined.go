package limited

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pacer-notify/pacer/internal/batch"
)

// Joined has concurrent callers share statements. A request that Postgres refuses for a value in it harms no other, and
// neither does one whose notification another transaction has locked.
type Joined[Request, Result any] struct {
	*batch.Batcher[Request, batch.Outcome[Result]]
}

// Join makes a Joined of at most size requests per statement.
func Join[Request, Result any](
	size int, run func(context.Context, []Request) []batch.Outcome[Result],
) Joined[Request, Result] {
	return Joined[Request, Result]{batch.New(size,
		func(ctx context.Context, requests []Request) ([]batch.Outcome[Result], error) {
			return run(ctx, requests), nil
		})}
}

// Do waits for the result of a request. When ctx ends first, it is unknown whether the request took effect.
func (j Joined[Request, Result]) Do(ctx context.Context, request Request) (Result, error) {
	o, err := j.Batcher.Do(ctx, request)
	if err == nil {
		err = o.Err
	}
	return o.Result, err
}

// ValueRefused reports whether Postgres refused a statement for a value in it: a text that is none in its encoding, a
// number out of range (class 22), a row that a constraint forbids (23), something too long or too deep (54). Postgres
// has rolled it back then. No error of the connection, of the server's state or of time is one: it would be the same
// for each row, and what became of the statement may be unknown.
func ValueRefused(err error) bool {
	failed, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || len(failed.Code) < 2 {
		return false
	}
	class := failed.Code[:2]
	return class == "22" || class == "23" || class == "54"
}
