package settings

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

var update = flag.Bool("update", false, "write the tables of docs/settings.md")

const (
	settingsPage      = "../../docs/settings.md"
	beginTables       = "<!-- settings -->\n"
	endTables         = "<!-- end of settings -->\n"
	settingsTableHead = "| flag | environment | default | meaning |\n|---|---|---|---|\n"
)

// pageCells keeps the text of a cell from being read as a mark-up or as the end of the cell.
var pageCells = strings.NewReplacer("|", `\|`, "*", `\*`)

// TestSettingsPage wants the tables of docs/settings.md to be what the programs say of their settings. With -update it
// writes them.
func TestSettingsPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(settingsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := strings.Cut(string(text), beginTables)
	_, after, ended := strings.Cut(rest, endTables)
	if !begun || !ended {
		t.Fatalf("%s has no place for the tables", settingsPage)
	}
	want := before + beginTables + settingsTables(t) + endTables + after
	if *update {
		if err := os.WriteFile(settingsPage, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Errorf("the tables of %s are not those of the settings; write them with make docs", settingsPage)
	}
}

// settingsTables are the settings of the dispatcher, of its channels, and of the programs that call it.
func settingsTables(t *testing.T) string {
	t.Helper()
	channels := settingsOf(t, &Channels{})
	process := slices.DeleteFunc(settingsOf(t, &Server{}), func(f *kong.Flag) bool {
		return slices.ContainsFunc(channels, func(c *kong.Flag) bool { return c.Name == f.Name })
	})
	return "\n## The dispatcher\n\n" + settingsTable(process) +
		"\n## Channels\n\n" + settingsTable(channels) +
		"\n## `enqueue` without a connection string\n\n" + settingsTable(settingsOf(t, &Client{})) +
		"\n## Commands that call a running dispatcher\n\n" + settingsTable(settingsOf(t, &OpsClient{})) + "\n"
}

// settingsOf are the flags of a program that has these settings only.
func settingsOf(t *testing.T, settings any) []*kong.Flag {
	t.Helper()
	parser, err := NewParser(settings, "program", "", Environ{}, kong.NoDefaultHelp())
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model.Flags
}

// settingsTable writes one row for each setting. Its help ends with the default.
func settingsTable(flags []*kong.Flag) string {
	var table strings.Builder
	table.WriteString(settingsTableHead)
	for _, f := range flags {
		meaning, standard, _ := strings.Cut(f.Help, "Default: ")
		standard = strings.TrimSuffix(standard, ".")
		if standard == "" {
			standard = "none"
		}
		names := make([]string, 0, 1)
		for _, name := range variablesOf(f.Value) {
			names = append(names, "`"+name+"`")
		}
		table.WriteString("| `--" + f.Name + "` | " + strings.Join(names, ", ") + " | " + pageCells.Replace(standard) +
			" | " + pageCells.Replace(strings.TrimSpace(meaning)) + " |\n")
	}
	return table.String()
}
