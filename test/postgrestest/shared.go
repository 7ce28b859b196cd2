package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/test/processtest"
)

// template is the database of the current schema that others are copied from.
const template = "migrated"

// shared is the server of this test binary, and copies makes its databases. They have to be package variables: TestMain
// and the tests meet nowhere else.
var (
	shared = processtest.Shared{Package: "postgrestest", Start: startShared}
	copies copier
)

func startShared() (*processtest.Instance, error) {
	program, err := empty(nil, []string{
		"fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_wal_size=64MB",
	})
	if err != nil {
		return nil, err
	}
	program.Memory = true
	in, err := processtest.NewInstance(program)
	if err != nil {
		return nil, err
	}
	err = execute(databaseURL(in, "postgres"), "CREATE DATABASE "+template)
	if err == nil {
		err = migrate(databaseURL(in, template))
	}
	if err != nil {
		return nil, errors.Join(err, in.Remove())
	}
	return in, nil
}

// Main runs the tests of a package, stops the shared server and ends the binary. It fails the run when goroutines are
// left over, apart from those that the options ignore. It is to be the only statement of TestMain.
func Main(m *testing.M, options ...goleak.Option) {
	goleak.VerifyTestMain(Around(m), options...)
}

// Around gives a test run with the shared server around it, for packages whose tests need another server besides.
func Around(m goleak.TestingM) goleak.TestingM { return shared.Around(m) }

// URL returns a new database of the shared server with the current schema. It is this test's alone and gone afterwards.
func URL(tb testing.TB) string {
	tb.Helper()
	return lease(tb, template)
}

// EmptyURL returns a new database without any schema of ours.
func EmptyURL(tb testing.TB) string {
	tb.Helper()
	return lease(tb, "template0")
}

// Copy returns a copy of a database that nobody is connected to, as a dump that is restored into the same cluster makes
// one. It is gone when the test ends.
func Copy(tb testing.TB, address string) string {
	tb.Helper()
	config, err := pgx.ParseConfig(address)
	if err != nil {
		tb.Fatal(err)
	}
	return lease(tb, config.Database)
}

// lease copies a database for the test and drops the copy when the test ends.
func lease(tb testing.TB, from string) string {
	tb.Helper()
	in, err := shared.Instance()
	if err != nil {
		tb.Fatal(err)
	}
	name, err := copies.create(in, from)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := execute(databaseURL(in, "postgres"), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			tb.Error(err)
		}
	})
	return databaseURL(in, name)
}

// copier copies databases, one after the other, since Postgres wants the original to itself.
type copier struct {
	mu   sync.Mutex
	made int
}

func (c *copier) create(in *processtest.Instance, from string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made++
	name := fmt.Sprintf("test_%d", c.made)
	return name, execute(databaseURL(in, "postgres"), "CREATE DATABASE "+name+" TEMPLATE "+from)
}

// Connect gives a connection that is closed when the test ends.
func Connect(tb testing.TB, url string) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), url)
	if err != nil {
		tb.Fatalf("connect to %s: %v", url, err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.WithoutCancel(tb.Context())) })
	return conn
}
