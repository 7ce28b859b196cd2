package connect

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/internal/refusal"
	"github.com/pacer-notify/pacer/migrations"
)

// defaultConnections is how many connections a process has to Postgres unless the URL says so (pool_max_conns). They
// serve the batches that accept, claim and settle, the relay, larger batches of producers, and the API's reads.
const defaultConnections = 12

// reachTimeout is how long Postgres may take to respond at start.
const reachTimeout = 10 * time.Second

// Open connects to Postgres, and refuses a database in which this program can't keep its store. prepare may change how
// connections are made; it may be nil.
func Open(ctx context.Context, address string, prepare func(*pgxpool.Config)) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, refusal.New("DATABASE_URL can't be read: %s",
			strings.TrimPrefix(withoutPassword(err, address), "cannot parse "))
	}
	if !strings.Contains(address, "pool_max_conns") {
		config.MaxConns = defaultConnections
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = 2 * time.Second
	}
	// The statements' own time-outs notice a frozen server, and a network that swallows everything. The pool pings some
	// connections before they are used, see doubtful; without a time-out a swallowed ping would use up all of the
	// statement's.
	if config.PingTimeout == 0 {
		config.PingTimeout = time.Second
	}
	if prepare != nil {
		prepare(config)
	}
	// Whoever sets how statements are sent knows that there is a pooler.
	mode := Direct
	if config.ConnConfig.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {
		mode = Pooled
	}
	pool, err := openPool(ctx, config, address, mode)
	if errors.Is(err, ErrPooler) {
		pool, err = openPool(ctx, config, address, Pooled)
	}
	return pool, err
}

// openPool connects as mode says: [Direct] or [Pooled]. It returns [ErrPooler] when mode is Direct and there is a
// pooler.
func openPool(ctx context.Context, config *pgxpool.Config, address string,
	mode func(*pgxpool.Config),
) (*pgxpool.Pool, error) {
	config = config.Copy()
	mode(config)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, refusal.New("DATABASE_URL can't be used: %s", withoutPassword(err, address))
	}
	if err := checkDatabase(ctx, pool, config.ConnConfig); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// ThroughPooler reports whether a pool was made for a pooler.
func ThroughPooler(pool *pgxpool.Pool) bool {
	return pool.Config().ConnConfig.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement
}

// withoutPassword gives an error's text in one line, without the password that the address may hold.
func withoutPassword(err error, address string) string {
	text := oneLine(err)
	if parsed, parseErr := url.Parse(address); parseErr == nil {
		if password, set := parsed.User.Password(); set && password != "" {
			text = strings.ReplaceAll(text, password, "xxxxx")
		}
		text = strings.ReplaceAll(text, address, parsed.Redacted())
		return text
	}
	return strings.ReplaceAll(text, address, "the address")
}

// oneLine returns the last line of an error. The driver writes one line for every address that it tried.
func oneLine(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// checkDatabase waits until the database responds. Then it checks that the database can be written to, and its schema.
func checkDatabase(ctx context.Context, pool *pgxpool.Pool, config *pgx.ConnConfig) error {
	where := fmt.Sprintf("%s:%d/%s", config.Host, config.Port, config.Database)
	readOnly, err := backoff.Retry(ctx, func() (bool, error) { return askDatabase(ctx, pool) },
		backoff.WithMaxElapsedTime(reachTimeout), backoff.WithBackOff(backoff.NewConstantBackOff(250*time.Millisecond)))
	if errors.Is(err, ErrPooler) {
		return err
	}
	if err != nil {
		return refusal.New("Postgres at %s can't be reached (DATABASE_URL): %s", where, oneLine(err))
	}
	if readOnly {
		return refusal.New("Postgres at %s is read-only: point DATABASE_URL at the primary, with a role that may write",
			where)
	}
	err = migrations.Check(ctx, pool)
	_, version := errors.AsType[*migrations.VersionError](err)
	if _, encoding := errors.AsType[*migrations.EncodingError](err); version || encoding {
		return refusal.New("Postgres at %s: %v", where, err)
	}
	return err
}

// askDatabase asks whether the database is read-only. It returns [ErrPooler] when there is a pooler and the connections
// are not made for one.
func askDatabase(ctx context.Context, pool *pgxpool.Pool) (readOnly bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := pool.Acquire(ctx)
	if RefusedByPooler(err) {
		return false, backoff.Permanent(ErrPooler)
	}
	if err != nil {
		return false, err
	}
	defer conn.Release()
	if !ThroughPooler(pool) {
		if err := FindPooler(ctx, conn.Conn()); errors.Is(err, ErrPooler) {
			return false, backoff.Permanent(err)
		} else if err != nil {
			return false, err
		}
	}
	err = conn.QueryRow(ctx,
		"SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'").Scan(&readOnly)
	return readOnly, err
}
