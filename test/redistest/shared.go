package redistest

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

// sharedDatabases is how many logical databases the shared server has. More would slow down the expiry of keys, for
// which Redis visits a few databases at a time.
const sharedDatabases = 128

// shared is the server of this test binary. It has to be a package variable: TestMain and the tests meet nowhere else.
var shared pool

// pool hands out the logical databases of one server that is started when the first is asked for.
type pool struct {
	mu   sync.Mutex
	open bool // Main is running the tests
	in   *instance
	free []int // longest unused first
}

// Main runs the tests of a package, stops the shared server and ends the binary. It fails the run when goroutines are
// left over, apart from those that the options ignore. It is to be the only statement of TestMain.
func Main(m *testing.M, options ...goleak.Option) {
	goleak.VerifyTestMain(Around(m), options...)
}

// Around gives a test run with the shared server around it, for packages whose tests need another server besides.
func Around(m goleak.TestingM) goleak.TestingM { return run{m} }

// run is a test run with the shared server around it.
type run struct{ m goleak.TestingM }

// Run implements goleak.TestingM: the server is gone before goroutines are counted.
func (r run) Run() int {
	shared.begin()
	code := r.m.Run()
	if err := shared.end(); err != nil {
		fmt.Fprintln(os.Stderr, err) // No test is left that could be failed.
		return max(code, 1)
	}
	return code
}

// Client returns a client on an empty logical database of the shared server. The database is this test's alone until
// the test ends. The package's TestMain must call [Main].
func Client(tb testing.TB) *redis.Client {
	tb.Helper()
	addr, db := shared.lease(tb)
	return newClient(tb, addr, db)
}

// URL returns an empty logical database of the shared server as a URL, for what makes its own clients. Each call leases
// another one, like [Client].
func URL(tb testing.TB) string {
	tb.Helper()
	addr, db := shared.lease(tb)
	return "redis://" + addr + "/" + strconv.Itoa(db)
}

// begin allows leases.
func (p *pool) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = true
}

// end stops the server when one was started.
func (p *pool) end() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.in
	p.open, p.in, p.free = false, nil, nil
	if in == nil {
		return nil
	}
	return in.remove()
}

// lease takes an empty database for the test and gives it back, empty again, when the test ends.
func (p *pool) lease(tb testing.TB) (address string, db int) {
	tb.Helper()
	in, db, err := p.take()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := p.giveBack(in, db); err != nil {
			tb.Error(err)
		}
	})
	return addr(in.port), db
}

// take starts the server when it is not running yet and returns the database that was unused for longest.
func (p *pool) take() (*instance, int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.open {
		return nil, 0, fmt.Errorf("the shared redis-server needs func TestMain(m *testing.M) { redistest.Main(m) }")
	}
	if p.in == nil {
		in, err := newInstance([]string{"--databases", strconv.Itoa(sharedDatabases), "--hz", "50"})
		if err != nil {
			return nil, 0, err
		}
		p.in = in
		for db := range sharedDatabases {
			p.free = append(p.free, db)
		}
	}
	if len(p.free) == 0 {
		return nil, 0, fmt.Errorf("all %d databases of the shared redis-server are in use: use redistest.Start",
			sharedDatabases)
	}
	db := p.free[0]
	p.free = p.free[1:]
	return p.in, db, nil
}

// giveBack empties the database and puts it last in line, so that a straggler of this test finds no successor soon.
func (p *pool) giveBack(in *instance, db int) error {
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	c := redis.NewClient(options(addr(in.port), db))
	defer func() { _ = c.Close() }() // The command below tells whether the server is well.
	if err := c.FlushDB(ctx).Err(); err != nil {
		return fmt.Errorf("empty database %d of the shared redis-server: %w", db, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, db)
	return nil
}
