package connect

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/migrations"
)

// Login is the user and password of new connections. Those that are open stay as they are: Postgres asks only once.
type Login struct{ address atomic.Pointer[string] }

// NewLogin makes a Login of a connection string.
func NewLogin(address string) *Login {
	l := &Login{}
	l.address.Store(&address)
	return l
}

// Prepare has the connections of a pool use the login in force.
func (l *Login) Prepare(config *pgxpool.Config) {
	config.BeforeConnect = func(_ context.Context, connection *pgx.ConnConfig) error {
		fresh, err := pgx.ParseConfig(*l.address.Load())
		if err != nil {
			return err
		}
		connection.User, connection.Password = fresh.User, fresh.Password
		return nil
	}
}

// errElsewhere refuses a connection string that changes more than it may while the process runs.
var errElsewhere = errors.New("names another database or other options than before; only user and password may change " +
	"while a process runs: restart it")

// Renew has new connections use the user and password of another connection string, once Postgres has accepted them.
func (l *Login) Renew(ctx context.Context, address string) error {
	if withoutLogin(address) != withoutLogin(*l.address.Load()) {
		return fmt.Errorf("database-url %w", errElsewhere)
	}
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return fmt.Errorf("database-url can't be read: %s", withoutPassword(err, address))
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // a pooler keeps no prepared statement
	conn, err := pgx.ConnectConfig(ctx, config)
	if err == nil {
		err = errors.Join(migrations.Check(ctx, conn), conn.Close(ctx))
	}
	if err != nil {
		return fmt.Errorf("Postgres can't be used with the new user and password: %s", withoutPassword(err, address)) //nolint:staticcheck // a name
	}
	l.address.Store(&address)
	return nil
}

// withoutLogin is a connection string without user and password.
func withoutLogin(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return ""
	}
	query := parsed.Query()
	query.Del("user")
	query.Del("password")
	parsed.User, parsed.RawQuery = nil, query.Encode()
	return parsed.String()
}
