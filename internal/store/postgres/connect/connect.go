// Package connect opens connections to Postgres: direct ones, and such that go through a pooler; with the login in
// force, and for one process alone where that is needed.
package connect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/migrations"
)

// longIdle is how long a connection may be idle before the pool pings it in any case.
const longIdle = 10 * time.Second

// SessionParams are the settings that the store needs on a connection.
func SessionParams() map[string]string {
	return map[string]string{
		// The statements are few and always the same: to plan or compile one at each run costs more than to run it.
		"plan_cache_mode": "force_generic_plan",
		"jit":             "off",
		// Each statement has its index. A plan that was made while a table was empty must not read all of the table, or
		// all of an index that happens to have every column it needs, once the table is full.
		"enable_seqscan":       "off",
		"enable_indexonlyscan": "off",
		// The first few rows in some order are read in that order: not all rows are sorted first.
		"enable_sort": "off",
		// A statement that many callers share is not to fail because another one ran beside it.
		"default_transaction_isolation": "read committed",
		// Postgres gives up a client whose host has vanished after 25 s, and frees its locks; by default it keeps them
		// for two hours. The first three, in s, probe a silent client. The last, in ms, bounds how long Postgres waits
		// for a client to take what it sends.
		"tcp_keepalives_idle":     "10",
		"tcp_keepalives_interval": "5",
		"tcp_keepalives_count":    "3",
		"tcp_user_timeout":        "25000",
	}
}

// Direct prepares the connections of a pool to Postgres itself: they keep settings and prepared statements.
func Direct(config *pgxpool.Config) {
	maps.Copy(config.ConnConfig.RuntimeParams, SessionParams())
	migrations.Pin(config.ConnConfig.RuntimeParams)
	pingSeldom(config)
}

// pingSeldom has a pool ping only connections that are doubtful, unless somebody has set which.
func pingSeldom(config *pgxpool.Config) {
	if config.ShouldPing == nil {
		config.ShouldPing = doubtful
	}
}

// doubtful reports whether a connection is pinged before it is used: when it was idle for a second and its other end
// has closed it, as a restarted Postgres does, or when it was idle for so long that the network may have forgotten it.
// A ping takes as long as a statement, so a slow Postgres gets few.
func doubtful(_ context.Context, of pgxpool.ShouldPingParams) bool {
	switch {
	case of.IdleDuration <= time.Second:
		return false
	case of.IdleDuration > longIdle:
		return true
	}
	//nolint:staticcheck // what replaces it is the ping, which takes a round trip
	return of.Conn.PgConn().CheckConn() != nil
}

// Pooled prepares the connections of a pool to a pooler, such as PgBouncer in transaction mode, which gives each
// transaction whatever connection is free. Nothing of a session survives: no setting, no prepared statement, no lock.
// Each statement is planned when it runs, so no plan is ever older than the tables.
func Pooled(config *pgxpool.Config) {
	for name := range SessionParams() {
		delete(config.ConnConfig.RuntimeParams, name)
	}
	migrations.Pin(config.ConnConfig.RuntimeParams)
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	pingSeldom(config)
}

// ErrPooler says that a pooler stands before Postgres, and the connection was not made for one.
var ErrPooler = errors.New("a connection pooler stands before Postgres")

// FindPooler returns [ErrPooler] when a connection that [Direct] prepared leads to a pooler. A pooler gives its clients
// a process number of its own, because it does not know yet which of its connections will serve them.
func FindPooler(ctx context.Context, conn *pgx.Conn) error {
	var pid uint32
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid); err != nil {
		return fmt.Errorf("ask Postgres for its process: %w", err)
	}
	if pid != conn.PgConn().PID() {
		return ErrPooler
	}
	return nil
}

// RefusedByPooler reports whether a pooler refused a connection because of settings that Postgres itself knows.
func RefusedByPooler(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && strings.Contains(refused.Message, "unsupported startup parameter")
}
