package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/settings"
)

// TestResponsesPage wants the tables of docs/responses.md to be those by which the channels read responses.
// With -update it writes them.
func TestResponsesPage(t *testing.T) {
	t.Parallel()
	const page, begin, end = "docs/responses.md", "<!-- responses -->\n", "<!-- end of responses -->\n"
	text := readFile(t, page)
	before, rest, found := strings.Cut(text, begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the tables", page)
	}
	tables, rows := responseTables()
	if rows < 60 {
		t.Errorf("the channels know %d responses, want 60 at least", rows)
	}
	want := before + begin + tables + end + after
	if *update {
		if err := os.WriteFile(filepath.Join(top, page), []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if text != want {
		t.Errorf("the tables of %s are not those of the channels; write them with make docs", page)
	}
}

// responseTables writes the tables of all channels, and counts their rows.
func responseTables() (text string, rows int) {
	var all strings.Builder
	for _, channel := range (settings.Channels{}).All() {
		if len(channel.Responses) == 0 {
			continue
		}
		fmt.Fprintf(&all, "\n## %s\n\n| response | what follows | did anybody get it | whom it concerns |\n"+
			"|---|---|---|---|\n", channel.Name)
		for _, row := range channel.Responses {
			concerns := row.Concerns.String()
			if row.Class == 0 {
				concerns = ""
			}
			fmt.Fprintf(&all, "| %s | %s | %s | %s |\n", row.Response(), row.Follows(), row.Reached(), concerns)
			rows++
		}
	}
	return all.String() + "\n", rows
}
