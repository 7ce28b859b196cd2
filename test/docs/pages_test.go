package docs_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/test/postgrestest"
)

// The addresses of the tutorial, which runs beside what README.md has started.
const (
	tutorialAPI      = "127.0.0.1:8180"
	tutorialOps      = "127.0.0.1:8181"
	tutorialReceiver = "127.0.0.1:9199"
)

// untilIdle waits, as a reader does, until nothing of the tutorial is on its way. It reads the counts of the whole
// deployment, which come before those of the partitions.
const untilIdle = `until curl -s http://` + tutorialAPI + `/v1/stats | ` +
	`grep -qE '^\{[^{]*"queued":0,[^{]*"sending":0,'; do sleep 0.05; done`

// untilEnded waits until nothing of README.md waits either.
const untilEnded = `until curl -s http://` + apiAddress + `/v1/stats | ` +
	`grep -q '"queued":0,"scheduled":0,"deferred":0,"retrying":0,"sending":0'; do sleep 0.05; done`

// serveFirst is what the operator's page takes for granted: a dispatcher with a policy file, and something to look at.
const serveFirst = `cat > policy.yaml <<'END'
version: 1
categories:
  default: {limits: [{max: 10, per: 1m}]}
  chat: {limits: [{max: 1, per: 3s}]}
END
dispatcher serve --policy policy.yaml >dispatcher.log 2>&1 &
until curl -sf http://` + opsAddress + `/readyz >ready.log; do sleep 0.05; done
enqueue --user ada --category chat --to http://` + receiverAddress + `/hook --title one --count 5`

// page is one whose commands are run, with commands of the test before it, and after each block that sends something.
type page struct{ name, first, then string }

// TestPagesAreTrue runs the commands of pages as printed, those that a reader follows one after the other in one shell,
// on addresses of their own. Each must succeed, and what a page shows after a block must be printed. A block that can't
// be run says bash, or is part of a list.
func TestPagesAreTrue(t *testing.T) {
	t.Parallel()
	for name, pages := range map[string][]page{
		"new user": {{name: "README.md", then: untilEnded}, {name: "docs/tutorial.md", then: untilIdle}},
		"operator": {{name: "docs/operate.md", first: serveFirst}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var steps []step
			begin := make([]int, len(pages))
			for i, p := range pages {
				begin[i] = len(steps)
				steps = append(steps, p.steps(t)...)
			}
			shell := newSession(t)
			for _, address := range []string{tutorialAPI, tutorialOps, tutorialReceiver} {
				shell.replace(address, freeAddress(t))
			}
			shell.replace("go build -o bin/ ./cmd/...", "mkdir -p bin && ln -sf '"+programs+"'/* bin/")
			printed := shell.run(t, steps)
			for i, p := range pages {
				end := append(begin, len(steps))[i+1]
				p.compare(t, steps[begin[i]:end], printed[begin[i]:end])
			}
		})
	}
}

// steps are the blocks of commands of a page.
func (p page) steps(t *testing.T) []step {
	t.Helper()
	steps := append([]step{{commands: p.first}}, stepsOf(t, p.name)...)
	if len(steps) < 3 {
		t.Fatalf("%s has %d blocks of commands only", p.name, len(steps)-1)
	}
	for i := range steps[1:] {
		s := &steps[i+1]
		if strings.Contains(s.commands, "curl") || strings.Contains(s.commands, "enqueue") {
			s.then = p.then
		}
	}
	return steps
}

// compare looks for the lines that the page shows in what its commands print, in their order. On README.md the receiver
// prints beside the commands, so there they may come anywhere.
func (p page) compare(t *testing.T, steps []step, printed []string) {
	t.Helper()
	for i, s := range steps {
		came, inOrder := shape(printed[i]), p.name != "README.md"
		if !inOrder {
			came = shape(strings.Join(printed, ""))
		}
		for _, line := range shape(s.prints) {
			found := slices.Index(came, line)
			if found < 0 {
				t.Errorf("%s, after\n%s\nthe line\n\t%s\ndoes not come; printed was:\n%s", p.name, s.commands, line, printed[i])
				break
			}
			if inOrder {
				came = came[found+1:]
			}
		}
	}
}

// TestSQLOfThePagesRuns runs the statements that the page on transactions shows.
func TestSQLOfThePagesRuns(t *testing.T) {
	t.Parallel()
	statements := fences(readFile(t, "docs/transactions.md"), "sql")
	if len(statements) == 0 {
		t.Fatal("the page shows no SQL")
	}
	connection := postgrestest.Connect(t, postgrestest.URL(t))
	for _, statement := range statements {
		if _, err := connection.Exec(t.Context(), statement); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

// TestPolicyExamplesAreValid reads each policy that the reference shows.
func TestPolicyExamplesAreValid(t *testing.T) {
	t.Parallel()
	examples := fences(readFile(t, "docs/policy.md"), "yaml")
	if len(examples) < 5 {
		t.Errorf("docs/policy.md shows %d policies only", len(examples))
	}
	for _, example := range examples {
		if _, err := policy.Parse("docs/policy.md", []byte(example)); err != nil {
			t.Errorf("%v\n%s", err, example)
		}
	}
}
