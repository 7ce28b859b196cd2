package app

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

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	storepostgres "github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/migrations"
)

// defaultConnections is how many connections a process has to Postgres unless the URL says so (pool_max_conns): the
// batches of accepting, claiming and settling, the relay, many at once, and some for questions.
const defaultConnections = 12

// nodeLock is the advisory lock of the process that has a database to itself: "node" in ASCII.
const nodeLock = 0x6e6f6465

// openDatabase connects to Postgres and refuses one that this program can't keep its store in.
func openDatabase(ctx context.Context, address string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, refuse("DATABASE_URL can't be read: %s",
			strings.TrimPrefix(withoutPassword(err, address), "cannot parse "))
	}
	if !strings.Contains(address, "pool_max_conns") {
		config.MaxConns = defaultConnections
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = 2 * time.Second
	}
	// A server that is frozen, or a network that swallows everything, is found out by the statements' own time-outs;
	// idle connections by this.
	config.HealthCheckPeriod = 5 * time.Second
	mutateDatabase(config)
	// Whoever sets how statements are sent knows that a pooler stands between.
	prepare := storepostgres.Direct
	if config.ConnConfig.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {
		prepare = storepostgres.Pooled
	}
	pool, err := openPool(ctx, config, address, prepare)
	if errors.Is(err, storepostgres.ErrPooler) {
		pool, err = openPool(ctx, config, address, storepostgres.Pooled)
	}
	return pool, err
}

// openPool connects in one of the two ways; in that of no pooler it gives [storepostgres.ErrPooler] when there is one.
func openPool(ctx context.Context, config *pgxpool.Config, address string,
	prepare func(*pgxpool.Config),
) (*pgxpool.Pool, error) {
	config = config.Copy()
	prepare(config)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, refuse("DATABASE_URL can't be used: %s", withoutPassword(err, address))
	}
	if err := checkDatabase(ctx, pool, config.ConnConfig); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// throughPooler tells whether a pool was made for a pooler.
func throughPooler(pool *pgxpool.Pool) bool {
	return pool.Config().ConnConfig.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement
}

// withoutPassword tells an error in one line, without what the address holds in secret.
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

// oneLine is the last of the lines in which the driver tells of every address that it tried.
func oneLine(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// checkDatabase waits until the database answers, and checks its schema and that it can be written to.
func checkDatabase(ctx context.Context, pool *pgxpool.Pool, config *pgx.ConnConfig) error {
	where := fmt.Sprintf("%s:%d/%s", config.Host, config.Port, config.Database)
	readOnly, err := backoff.Retry(ctx, func() (bool, error) { return askDatabase(ctx, pool) },
		backoff.WithMaxElapsedTime(reachTimeout), backoff.WithBackOff(backoff.NewConstantBackOff(250*time.Millisecond)))
	if errors.Is(err, storepostgres.ErrPooler) {
		return err
	}
	if err != nil {
		return refuse("Postgres at %s can't be reached (DATABASE_URL): %s", where, oneLine(err))
	}
	if readOnly {
		return refuse("Postgres at %s is read-only: point DATABASE_URL at the primary, with a role that may write",
			where)
	}
	err = migrations.Check(ctx, pool)
	if version, ok := errors.AsType[*migrations.VersionError](err); ok {
		return refuse("Postgres at %s: %v", where, version)
	}
	return err
}

// askDatabase asks whether the database is read-only, and, unless the connections are made for one, whether a pooler
// stands between.
func askDatabase(ctx context.Context, pool *pgxpool.Pool) (readOnly bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := pool.Acquire(ctx)
	if storepostgres.RefusedByPooler(err) {
		return false, backoff.Permanent(storepostgres.ErrPooler)
	}
	if err != nil {
		return false, err
	}
	defer conn.Release()
	if !throughPooler(pool) {
		if err := storepostgres.FindPooler(ctx, conn.Conn()); errors.Is(err, storepostgres.ErrPooler) {
			return false, backoff.Permanent(err)
		} else if err != nil {
			return false, err
		}
	}
	err = conn.QueryRow(ctx, "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'").Scan(&readOnly)
	return readOnly, err
}

// takeNode makes this process the only one on a database whose limiter lives in it: two would each allow the limits.
// The lock is a transaction's, which is kept open: a session's would stay with the connection of a pooler.
func takeNode(ctx context.Context, pool *pgxpool.Pool) (release func() error, err error) {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to Postgres: %w", err)
	}
	release = func() error { //nolint:contextcheck // at the end, when the start's context has ended
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		return tx.Rollback(ctx)
	}
	var mine bool
	if err := tx.QueryRow(ctx, storepostgres.TryLockSQL, int64(nodeLock)).Scan(&mine); err != nil {
		return nil, errors.Join(fmt.Errorf("take the database for this process: %w", err), release())
	}
	if !mine {
		return nil, errors.Join(refuse("another process without REDIS_URL works on this database: give all of them the same REDIS_URL"), release())
	}
	return release, nil
}

// openPostgresStore sets up the store in Postgres over the agendas, and the relay between them.
func (a *App) openPostgresStore(ctx context.Context) error {
	store := storepostgres.New(a.pool, a.agendas, mutateStoreConfig(storepostgres.Config{
		Apart: a.attached, Retention: a.cfg.Retention, Log: a.log,
	}))
	a.defers("store", store.Close)
	a.store, a.postgres = store, store
	a.relay = storepostgres.NewRelay(store, storepostgres.RelayConfig{
		Check: a.rules.check, Windows: a.rules.longestWindow, Rebuilt: a.writeFactsAgain, Adopted: a.adopted,
	})
	return a.openOwnLimits(ctx, store)
}

// adopted counts what processes without metrics of their own accepted.
func (a *App) adopted(category string, n int64) { a.metrics.Adopted(category, n) }

// writeFactsAgain writes what the deployment keeps in Redis besides its partitions.
func (a *App) writeFactsAgain(ctx context.Context) {
	err := errors.Join(a.redis.agreeOnPartitions(ctx, a.cfg.Partitions), a.publishPolicy(ctx, a.rules.current()))
	if !a.attached { // whose settings say nothing of channels and templates
		err = errors.Join(err, a.publishChannels(ctx), a.publishTemplates(ctx))
	}
	if err != nil {
		a.log.WarnContext(ctx, "write partitions and policy to Redis again", "error", err)
	}
}

// check tells what the policy or its channel has against a notification that a producer wrote into the database.
func (r *rules) check(n *notification.Notification) error {
	if !r.HasCategory(n.Category) {
		return &notification.FieldError{Field: "category", Message: "is not named in the policy"}
	}
	return r.CheckDelivery(n)
}

// longestWindow is the longest of any rule in force.
func (r *rules) longestWindow() time.Duration {
	longest := time.Duration(0)
	for name := range r.current().Categories {
		longest = max(longest, longestOf(r.Settings("", name)))
	}
	if r.own != nil {
		longest = max(longest, r.own.Longest())
	}
	return longest
}

func longestOf(t agenda.Settings) time.Duration {
	longest := time.Duration(0)
	for _, rule := range t.Plan.Rules {
		longest = max(longest, rule.Per)
	}
	if !t.Plan.Algorithm.KeepsLog() {
		longest *= 2 // a counter's window may have begun a window before the admission that it still counts
	}
	return longest
}

// MigrateUp brings the schema to this program's version. A database that can't be reached is a [RefusalError].
func MigrateUp(ctx context.Context, address string) error {
	return migrate(ctx, address, migrations.Up)
}

// MigrateDown takes the latest migration back.
func MigrateDown(ctx context.Context, address string) error {
	return migrate(ctx, address, migrations.Down)
}

// Migrations lists the migrations that this program knows, and which of them the database has.
func Migrations(ctx context.Context, address string) (list []migrations.Migration, err error) {
	err = migrate(ctx, address, func(ctx context.Context, url string) error {
		list, err = migrations.Status(ctx, url)
		return err
	})
	return list, err
}

func migrate(ctx context.Context, address string, do func(context.Context, string) error) error {
	if _, err := pgx.ParseConfig(address); err != nil {
		return refuse("DATABASE_URL can't be read: %s", withoutPassword(err, address))
	}
	if err := do(ctx, address); err != nil {
		return fmt.Errorf("migrate: %s", withoutPassword(err, address))
	}
	return nil
}
