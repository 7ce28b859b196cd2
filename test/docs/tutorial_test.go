package docs_test

import (
	"slices"
	"strings"
	"testing"
)

const tutorialPage = "docs/tutorial.md"

// buildCommand is what the tutorial builds with, in a checkout. The test builds from there into its own folder.
const buildCommand = "go build -o bin/ ./cmd/..."

// untilIdle waits until nothing is on its way: a reader is slower than a worker, the script is not. It reads the counts
// of the whole deployment, which come before those of the partitions: one partition or another is always idle.
const untilIdle = `until curl -s http://` + apiAddress + `/v1/stats | grep -qE '^\{[^{]*"queued":0,[^{]*"sending":0,'; do sleep 0.05; done`

// TestTutorialIsTrue runs every command of the tutorial, and looks in what each block prints for the lines that the
// page shows, in their order. Times and durations may differ.
func TestTutorialIsTrue(t *testing.T) {
	t.Parallel()
	steps := stepsOf(t, tutorialPage)
	if len(steps) < 5 || !strings.Contains(steps[0].commands, buildCommand) {
		t.Fatalf("%s has %d blocks of commands, or does not begin with %q", tutorialPage, len(steps), buildCommand)
	}
	session := newSession(t)
	build := "mkdir -p bin && ln -s '" + programs(t) + "'/* bin/"
	steps[0].commands = strings.Replace(steps[0].commands, buildCommand, build, 1)
	for i := range steps {
		if strings.Contains(steps[i].commands, "curl") || strings.Contains(steps[i].commands, "bin/enqueue") {
			steps[i].then = untilIdle
		}
	}
	for i, output := range session.run(t, steps) {
		rest := shape(output)
		for _, line := range shape(steps[i].prints) {
			found := slices.Index(rest, line)
			if found < 0 {
				t.Errorf("%s, after\n%s\nthe line\n\t%s\ndoes not come; printed was:\n%s", tutorialPage,
					steps[i].commands, line, output)
				break
			}
			rest = rest[found+1:]
		}
	}
}
