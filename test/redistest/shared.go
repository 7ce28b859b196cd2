package redistest

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/test/processtest"
)

// sharedDatabases is how many logical databases the shared server has. More would slow down the expiry of keys, for
// which Redis visits a few databases at a time.
const sharedDatabases = 128

// shared is the server of this test binary, and free are its databases that no test uses. They have to be package
// variables: TestMain and the tests meet nowhere else.
var (
	shared = processtest.Shared{Package: "redistest", Start: func() (*processtest.Instance, error) {
		return processtest.NewInstance(program(nil,
			[]string{"--databases", strconv.Itoa(sharedDatabases), "--hz", "50"}))
	}}
	free = databases{free: allDatabases()}
)

// Main runs the tests of a package, stops the shared server and ends the binary. It fails the run when goroutines are
// left over, apart from those that the options ignore. It is to be the only statement of TestMain.
func Main(m *testing.M, options ...goleak.Option) {
	goleak.VerifyTestMain(Around(m), options...)
}

// Around gives a test run with the shared server around it, for packages whose tests need another server besides.
func Around(m goleak.TestingM) goleak.TestingM { return shared.Around(m) }

// Client returns a client on an empty logical database of the shared server. The database is this test's alone until
// the test ends. The package's TestMain must call [Main].
func Client(tb testing.TB) *redis.Client {
	tb.Helper()
	addr, db := lease(tb)
	return newClient(tb, addr, db)
}

// URL returns an empty logical database of the shared server as a URL, for what makes its own clients. Each call leases
// another one, like [Client].
func URL(tb testing.TB) string {
	tb.Helper()
	addr, db := lease(tb)
	return "redis://" + addr + "/" + strconv.Itoa(db)
}

// lease takes an empty database for the test and gives it back, empty again, when the test ends.
func lease(tb testing.TB) (addr string, db int) {
	tb.Helper()
	in, err := shared.Instance()
	if err != nil {
		tb.Fatal(err)
	}
	if db, err = free.take(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := empty(in.Addr(), db); err != nil {
			tb.Error(err)
			return
		}
		free.giveBack(db)
	})
	return in.Addr(), db
}

// empty removes all keys of a database.
func empty(addr string, db int) error {
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	c := redis.NewClient(options(addr, db))
	defer func() { _ = c.Close() }() // The command below tells whether the server is well.
	if err := c.FlushDB(ctx).Err(); err != nil {
		return fmt.Errorf("empty database %d of the shared redis-server: %w", db, err)
	}
	return nil
}

// databases hands out numbers of databases, the longest unused first, so that a straggler of a test finds no successor
// soon.
type databases struct {
	mu   sync.Mutex
	free []int
}

func allDatabases() []int {
	all := make([]int, sharedDatabases)
	for db := range all {
		all[db] = db
	}
	return all
}

func (d *databases) take() (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.free) == 0 {
		return 0, fmt.Errorf("all %d databases of the shared redis-server are in use: use redistest.Start",
			sharedDatabases)
	}
	db := d.free[0]
	d.free = d.free[1:]
	return db, nil
}

func (d *databases) giveBack(db int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free = append(d.free, db)
}
