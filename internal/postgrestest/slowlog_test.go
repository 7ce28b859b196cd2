package postgrestest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/postgrestest"
)

const limit = 250 * time.Millisecond

func TestASlowStatementIsFound(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	watch := server.WatchStatements(t)
	conn := postgrestest.Connect(t, server.URL())
	// As pacer sends them, with arguments; and over two lines.
	if _, err := conn.Exec(t.Context(), "SELECT pg_sleep($1::float8),\n 'slow'", 1.5); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "SELECT 'quick'"); err != nil {
		t.Fatal(err)
	}
	log := watch.End()
	over := log.Over(limit)
	if len(over) != 1 || over[0].Took < 1500*time.Millisecond || !strings.Contains(over[0].What, "pg_sleep($1::float8), 'slow'") {
		t.Errorf("over the limit are %v, want the statement that sleeps", over)
	}
}

func TestARestartedServerIsWatched(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	watch := server.WatchStatements(t)
	server.Restart()
	// The statement must not begin in the span of the restart, about which nothing is said.
	<-time.After(time.Second)
	if _, err := postgrestest.Connect(t, server.URL()).Exec(t.Context(), "SELECT pg_sleep(1.5)"); err != nil {
		t.Fatal(err)
	}
	if over := watch.End().Over(limit); len(over) != 1 {
		t.Errorf("over the limit are %v, want one", over)
	}
}
