package docs_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

const readmePage = "README.md"

// The servers that README's commands name. The test has servers of its own.
const (
	readmeRedis    = "redis://127.0.0.1:6379"
	readmePostgres = "postgres://pacer:secret@127.0.0.1:5432/pacer"
)

// untilDelivered waits until nothing waits any more, so that the receiver has shown all.
const untilDelivered = `until curl -s http://` + apiAddress + `/v1/stats | ` +
	`grep -q '"queued":0,"scheduled":0,"deferred":0,"retrying":0,"sending":0'; do sleep 0.05; done`

// TestReadmeIsTrue runs the commands of README.md as printed, one block after the other in one shell, against the
// built-in policy, with a Redis and a Postgres of the test. Only addresses differ. What README shows must be printed;
// the receiver prints beside the commands, so it may come anywhere. At last it runs README's SQL.
func TestReadmeIsTrue(t *testing.T) {
	t.Parallel()
	var steps []step
	for _, s := range stepsOf(t, readmePage) {
		if (block{page: readmePage, text: s.commands + "\n"}).among(notRun) != nil {
			continue
		}
		if strings.Contains(s.commands, "curl") || strings.Contains(s.commands, "enqueue") {
			s.then = untilDelivered
		}
		steps = append(steps, s)
	}
	if len(steps) < 6 {
		t.Fatalf("README.md has %d blocks of commands only", len(steps))
	}
	session := newSession(t)
	database := postgrestest.EmptyURL(t)
	session.replace(readmeRedis, redistest.URL(t))
	session.replace(readmePostgres, database)
	printed := strings.Join(session.run(t, steps), "")
	lines := shape(printed)
	for _, s := range steps {
		for _, line := range shape(s.prints) {
			if !slices.Contains(lines, line) {
				t.Errorf("README.md shows\n\t%s\nwhich does not come; printed was:\n%s", line, printed)
			}
		}
	}
	runSQL(t, database)
}

// runSQL runs the statements that README.md shows.
func runSQL(t *testing.T, database string) {
	t.Helper()
	statements := fences(readFile(t, readmePage), "sql")
	if len(statements) == 0 {
		t.Fatal("README.md shows no SQL")
	}
	connection, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close(t.Context())
	for _, statement := range statements {
		if _, err := connection.Exec(t.Context(), statement); err != nil {
			t.Errorf("README.md: %s: %v", statement, err)
		}
	}
}
