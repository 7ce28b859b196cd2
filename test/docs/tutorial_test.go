package docs_test

import (
	"slices"
	"testing"
)

const (
	tutorialPage = "docs/tutorial.md"
	tutorialAPI  = "127.0.0.1:8180"
)

// untilTutorialIsIdle waits until nothing is on its way: a reader is slower than a worker, the script is not. It reads
// the counts of the whole deployment, which come before those of the partitions: one partition or another is always idle.
const untilTutorialIsIdle = `until curl -s http://` + tutorialAPI +
	`/v1/stats | grep -qE '^\{[^{]*"queued":0,[^{]*"sending":0,'; do sleep 0.05; done`

// printsInOrder looks in what each block of the tutorial printed for the lines that the page shows, in their order.
// Times and durations may differ.
func printsInOrder(t *testing.T, steps []step, printed []string) {
	t.Helper()
	for i, output := range printed {
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
