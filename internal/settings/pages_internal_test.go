package settings

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/test/transcript"
)

const settingsTableHead = "| flag | environment | default | meaning |\n|---|---|---|---|\n"

// pageCells keeps the text of a cell from being read as a mark-up or as the end of the cell.
var pageCells = strings.NewReplacer("|", `\|`, "*", `\*`)

// TestPagesAreWrittenFromTheCode compares the parts of pages that are made from the settings and from the channels.
// With -update it writes them.
func TestPagesAreWrittenFromTheCode(t *testing.T) {
	t.Parallel()
	type part struct{ name, text string }
	for page, parts := range map[string][]part{
		"settings": {{"settings", settingsTables(t)}}, "responses": {{"responses", responses()}},
		"channels": {{"members", members()}, {"channels", deliveries(t)}},
	} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			path := "../../docs/" + page + ".md"
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want := string(whole)
			for _, p := range parts {
				begin, end := "<!-- "+p.name+" -->\n", "<!-- end of "+p.name+" -->\n"
				before, rest, begun := strings.Cut(want, begin)
				_, after, ended := strings.Cut(rest, end)
				if !begun || !ended {
					t.Fatalf("%s has no place for %s", path, p.name)
				}
				want = before + begin + "\n" + p.text + "\n" + end + after
			}
			transcript.Equal(t, path, want)
		})
	}
}

// settingsTables are the settings of the dispatcher, of its channels, and of the programs that call it.
func settingsTables(t *testing.T) string {
	t.Helper()
	channels := settingsOf(t, &Channels{})
	process := slices.DeleteFunc(settingsOf(t, &Server{}), func(f *kong.Flag) bool {
		return slices.ContainsFunc(channels, func(c *kong.Flag) bool { return c.Name == f.Name })
	})
	return "## The dispatcher\n\n" + settingsTable(process) +
		"\n## Channels\n\n" + settingsTable(channels) +
		"\n## `enqueue` without a connection string\n\n" + settingsTable(settingsOf(t, &Client{})) +
		"\n## Commands that call a running dispatcher\n\n" + settingsTable(settingsOf(t, &OpsClient{}))
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

// responses writes a table for each channel. Responses with the same consequences share a row.
func responses() string {
	var all strings.Builder
	for _, channel := range (Channels{}).All() {
		rows := map[string]push.Table{}
		var order []string
		for _, row := range channel.Responses {
			concerns := row.Concerns.String()
			if row.Class == 0 {
				concerns = ""
			}
			outcome := fmt.Sprintf("%s | %s | %s", row.Follows(), row.Reached(), concerns)
			if rows[outcome] == nil {
				order = append(order, outcome)
			}
			rows[outcome] = append(rows[outcome], row)
		}
		if len(order) == 0 {
			continue
		}
		fmt.Fprintf(&all, "## %s\n\n| response | notification | reached anybody | concerns |\n|---|---|---|---|\n", channel.Name)
		for _, outcome := range order {
			fmt.Fprintf(&all, "| %s | %s |\n", strings.Join(cell(channel.Responses, rows[outcome]), "<br>"), outcome)
		}
		all.WriteString("\n")
	}
	return strings.TrimSuffix(all.String(), "\n")
}

// cell lists responses with the same consequences: the statuses first, then the reasons of each status in one line. It
// leaves out a status that its class, such as 4xx, covers. A class is "other 4xx" where the table has more of it.
func cell(table, rows push.Table) []string {
	var lines []string
	reasons := map[push.Row]int{} // the line of a status and condition
	for _, row := range rows {
		if row.Reason == "" {
			lines = append(lines, statusLine(table, rows, row)...)
			continue
		}
		of := push.Row{Status: row.Status, If: row.If}
		at, found := reasons[of]
		if !found {
			reasons[of] = len(lines)
			lines = append(lines, row.Response())
			continue
		}
		before, _ := strings.CutSuffix(lines[at], ", "+row.If)
		lines[at] = strings.TrimSuffix(before+", "+row.Reason+", "+row.If, ", ")
	}
	return lines
}

// statusLine is the line of a row without a reason: none where the row of its class is in the same cell.
func statusLine(table, rows push.Table, row push.Row) []string {
	text := row.Response()
	switch {
	case row.If != "":
	case row.Status >= 100:
		if slices.ContainsFunc(rows, func(r push.Row) bool {
			return r.Status == row.Status/100 && r.Reason+r.If == ""
		}) {
			return nil
		}
	case slices.ContainsFunc(table, func(r push.Row) bool { return r.Status/100 == row.Status && r.Reason+r.If == "" }):
		text = "other " + text
	}
	return []string{text}
}

// deliveries writes what the channels recommend for their deliveries, as policy check prints it.
func deliveries(t *testing.T) string {
	t.Helper()
	p, err := policy.Parse("", []byte("version: 1\ncategories: {default: {}}"))
	if err != nil {
		t.Fatal(err)
	}
	return "```text\n" + p.DeliveriesTable(Channels{}.Deliveries()).String() + "```\n"
}

// members writes what the members of objects in the providers' formats must be. Those alike share a row.
func members() string {
	var all strings.Builder
	all.WriteString("| own object of | members | must be |\n|---|---|---|\n")
	for _, channel := range (Channels{}).All() {
		rows := map[string][]string{}
		var order []string
		for _, f := range channel.OwnFields {
			must := f.Wanted()
			if f.Refused != "" {
				must = "absent: " + f.Refused
			}
			if rows[must] == nil {
				order = append(order, must)
			}
			rows[must] = append(rows[must], "`"+f.Path+"`")
		}
		for _, must := range order {
			fmt.Fprintf(&all, "| `%s` | %s | %s |\n", channel.Name, strings.Join(rows[must], ", "), must)
		}
	}
	return all.String()
}
