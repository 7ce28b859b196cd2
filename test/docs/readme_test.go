package docs_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/test/postgrestest"
)

const (
	readmePage       = "README.md"
	transactionsPage = "docs/transactions.md"
)

// untilDelivered waits until nothing waits any more, so that the receiver has shown all.
const untilDelivered = `until curl -s http://` + apiAddress + `/v1/stats | ` +
	`grep -q '"queued":0,"scheduled":0,"deferred":0,"retrying":0,"sending":0'; do sleep 0.05; done`

// TestReadmeIsTrue runs the commands of README.md as printed, one block after the other in one shell, against the
// built-in policy. Only addresses differ. What README shows must be printed; the receiver prints beside the commands, so
// it may come anywhere.
func TestReadmeIsTrue(t *testing.T) {
	t.Parallel()
	var steps []step
	for _, s := range stepsOf(t, readmePage) {
		s.commands = strings.Replace(s.commands, buildCommand, "mkdir -p bin && ln -s '"+programs(t)+"'/* bin/", 1)
		if strings.Contains(s.commands, "curl") || strings.Contains(s.commands, "enqueue") {
			s.then = untilDelivered
		}
		steps = append(steps, s)
	}
	if len(steps) < 4 {
		t.Fatalf("README.md has %d blocks of commands only", len(steps))
	}
	session := newSession(t)
	printed := strings.Join(session.run(t, steps), "")
	lines := shape(printed)
	for _, s := range steps {
		for _, line := range shape(s.prints) {
			if !slices.Contains(lines, line) {
				t.Errorf("README.md shows\n\t%s\nwhich does not come; printed was:\n%s", line, printed)
			}
		}
	}
}

// TestTransactionsIsTrue runs the SQL that the page on transactions shows.
func TestTransactionsIsTrue(t *testing.T) {
	t.Parallel()
	statements := fences(readFile(t, transactionsPage), "sql")
	if len(statements) == 0 {
		t.Fatal("the page shows no SQL")
	}
	connection, err := pgx.Connect(t.Context(), postgrestest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close(t.Context())
	for _, statement := range statements {
		if _, err := connection.Exec(t.Context(), statement); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
}
