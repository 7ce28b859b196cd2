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

// buildCommand is how both pages build the programs. The test builds them elsewhere, once.
const buildCommand = "go build -o bin/ ./cmd/..."

// stepsToPlay are the steps of README.md or the tutorial. After each that sends something, the test waits, as a reader
// does, until a dispatcher has nothing to do any more.
func stepsToPlay(t *testing.T, page, wait string) []step {
	t.Helper()
	steps := stepsOf(t, page)
	if len(steps) < 4 || !strings.Contains(steps[0].commands, buildCommand) {
		t.Fatalf("%s has %d blocks of commands, or does not begin with %q", page, len(steps), buildCommand)
	}
	built := "mkdir -p bin && ln -sf '" + programs(t) + "'/* bin/"
	for i := range steps {
		steps[i].commands = strings.Replace(steps[i].commands, buildCommand, built, 1)
		if strings.Contains(steps[i].commands, "curl") || strings.Contains(steps[i].commands, "enqueue") {
			steps[i].then = wait
		}
	}
	return steps
}

// TestReadmeAndTutorialAreTrue runs the commands of README.md and then those of the tutorial, as printed, one block
// after the other in one shell. Only addresses differ.
func TestReadmeAndTutorialAreTrue(t *testing.T) {
	t.Parallel()
	readme, tutorial := stepsToPlay(t, readmePage, untilDelivered), stepsToPlay(t, tutorialPage, untilTutorialIsIdle)
	session := newSession(t)
	for _, address := range []string{tutorialAPI, "127.0.0.1:8181", "127.0.0.1:9199"} {
		session.replace(address, freeAddress(t))
	}
	printed := session.run(t, slices.Concat(readme, tutorial))
	printsSomewhere(t, readme, strings.Join(printed[:len(readme)], ""))
	printsInOrder(t, tutorial, printed[len(readme):])
}

// printsSomewhere looks for what README.md shows. The receiver prints beside the commands, so it may come anywhere.
func printsSomewhere(t *testing.T, steps []step, printed string) {
	t.Helper()
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
