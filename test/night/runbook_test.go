package night_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// runbook is the page that shows what is said, in a table for each chapter.
const runbook = "../../docs/runbook.md"

// The runbook shows what the golden file has.
func TestRunbook(t *testing.T) {
	t.Parallel()
	is, want, err := runbookPage()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(is, want); diff != "" && !*update {
		t.Errorf("docs/runbook.md does not show what %s has; run make docs (-is +want):\n%s", golden, diff)
	}
}

// runbookPage is the page as it is and as it should be.
func runbookPage() (is, want string, err error) {
	text, err := os.ReadFile(runbook)
	if err != nil {
		return "", "", err
	}
	want = string(text)
	for _, c := range chapters() {
		begin, end := "<!-- "+c.name+": written by make docs -->\n", "<!-- end of "+c.name+" -->\n"
		before, rest, begins := strings.Cut(want, begin)
		_, after, ends := strings.Cut(rest, end)
		if !begins || !ends {
			return "", "", fmt.Errorf("docs/runbook.md has no place for the table %s", c.name)
		}
		want = before + begin + c.table() + end + after
	}
	return string(text), want, nil
}

// varying are the placeholders, with what surrounds them without a space.
var varying = regexp.MustCompile(`\b(TIME|CLOCK|DURATION|HOST|PROCESS|COUNT|VERSION|FILE|OPERATOR|SECONDS|USER)\b`)

// table is a chapter's table. Cases in which pacer says the same share a row.
func (c chapter) table() string {
	happened, do := map[string][]string{}, map[string][]string{}
	var order []string
	for _, n := range c.nights {
		sentence := varying.ReplaceAllString(c.shows(expected.said[n.title]), "…")
		if happened[sentence] == nil {
			order = append(order, sentence)
		}
		happened[sentence] = append(happened[sentence], n.title)
		if !slices.Contains(do[sentence], n.do) {
			do[sentence] = append(do[sentence], n.do)
		}
	}
	text := "\n| what pacer says | what happened | what to do |\n|---|---|---|\n"
	for _, sentence := range order {
		text += fmt.Sprintf("| %s | %s | %s |\n", sentence,
			strings.Join(happened[sentence], "<br>or: "), strings.Join(do[sentence], "<br>or: "))
	}
	return text + "\n"
}
