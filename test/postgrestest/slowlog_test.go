package postgrestest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/postgrestest"
)

const long = 1500 * time.Millisecond

func TestASlowStatementIsFound(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	watch := server.WatchStatements(t)
	conn := postgrestest.Connect(t, server.URL())
	// As pacer sends them, with arguments; and over two lines.
	if _, err := conn.Exec(t.Context(), "SELECT pg_sleep($1::float8),\n 'slow'", long.Seconds()); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "SELECT 'quick'"); err != nil {
		t.Fatal(err)
	}
	// What is blamed is up to the machine, and the tests of package slowlog; what is seen is not.
	if slowest := watch.End().Slowest(); slowest.Took < long ||
		!strings.Contains(slowest.What, "pg_sleep($1::float8), 'slow'") {
		t.Errorf("the slowest is %v, want the statement that sleeps", slowest)
	}
}

func TestARestartedServerIsWatched(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	watch := server.WatchStatements(t)
	server.Restart()
	// About a statement that began as close to the restart as it takes long nothing is said.
	conn := postgrestest.Connect(t, server.URL())
	for range 5 {
		if _, err := conn.Exec(t.Context(), "SELECT pg_sleep($1::float8)", 0.5); err != nil {
			t.Fatal(err)
		}
	}
	if slowest := watch.End().Slowest(); slowest.Took < 500*time.Millisecond {
		t.Errorf("the slowest is %v", slowest)
	}
}
