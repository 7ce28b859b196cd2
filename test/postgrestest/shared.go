package postgrestest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/migrations"
)

// shared is the server of this test binary. It has to be a package variable: TestMain and the tests meet nowhere else.
var shared pool

// pool hands out databases of one server that is started when the first is asked for.
type pool struct {
	mu   sync.Mutex
	open bool // Main is running the tests
	in   *instance
	made int
}

// Main runs the tests of a package, stops the shared server and ends the binary. It fails the run when goroutines are
// left over, apart from those that the options ignore. It is to be the only statement of TestMain.
func Main(m *testing.M, options ...goleak.Option) {
	goleak.VerifyTestMain(Around(m), options...)
}

// Around gives a test run with the shared server around it, for packages whose tests need another server besides.
func Around(m goleak.TestingM) goleak.TestingM { return run{m} }

type run struct{ m goleak.TestingM }

// Run implements goleak.TestingM.
func (r run) Run() int {
	shared.begin()
	code := r.m.Run()
	if err := shared.end(); err != nil {
		fmt.Fprintln(os.Stderr, err) // No test is left that could be failed.
		return max(code, 1)
	}
	return code
}

// URL returns a new database of the shared server with the current schema. It is this test's alone and gone afterwards.
func URL(tb testing.TB) string {
	tb.Helper()
	return shared.lease(tb, template)
}

// EmptyURL returns a new database without any schema of ours.
func EmptyURL(tb testing.TB) string {
	tb.Helper()
	return shared.lease(tb, "template0")
}

// template is the database that others are copied from.
const template = "migrated"

func (p *pool) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = true
}

func (p *pool) end() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.in
	p.open, p.in = false, nil
	if in == nil {
		return nil
	}
	return in.remove()
}

func (p *pool) lease(tb testing.TB, from string) string {
	tb.Helper()
	in, name, err := p.create(from)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := execute(in.url("postgres"), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			tb.Error(err)
		}
	})
	return in.url(name)
}

// create copies a database. Copies are made one after the other, since Postgres wants the original to itself.
func (p *pool) create(from string) (*instance, string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.open {
		return nil, "", fmt.Errorf("the shared postgres needs func TestMain(m *testing.M) { postgrestest.Main(m) }")
	}
	if p.in == nil {
		in, err := newInstance([]string{"fsync=off", "synchronous_commit=off", "full_page_writes=off"})
		if err != nil {
			return nil, "", err
		}
		p.in = in
		if err := p.migrate(); err != nil {
			return nil, "", err
		}
	}
	p.made++
	name := fmt.Sprintf("test_%d", p.made)
	return p.in, name, execute(p.in.url("postgres"), "CREATE DATABASE "+name+" TEMPLATE "+from)
}

func (p *pool) migrate() error {
	if err := execute(p.in.url("postgres"), "CREATE DATABASE "+template); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	return migrations.Up(ctx, p.in.url(template))
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
