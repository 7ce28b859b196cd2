package settings_test

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/settings"
)

var update = flag.Bool("update", false, "write the parts of pages that are made from the channels")

// TestPagesShowTheChannels compares the parts of pages that are made from the channels' descriptors and settings.
func TestPagesShowTheChannels(t *testing.T) {
	t.Parallel()
	for page, part := range map[string]struct{ name, text string }{
		"responses.md": {"responses", responses()},
		"channels.md":  {"channels", settingsOfChannels() + deliveries(t)},
	} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			path, begin, end := "../../docs/"+page, "<!-- "+part.name+" -->\n", "<!-- end of "+part.name+" -->\n"
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			before, rest, begun := strings.Cut(string(text), begin)
			_, after, ended := strings.Cut(rest, end)
			if !begun || !ended {
				t.Fatalf("docs/%s has no %q and %q", page, begin, end)
			}
			want := before + begin + "\n" + part.text + "\n" + end + after
			if *update {
				if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
					t.Fatal(err)
				}
			} else if string(text) != want {
				t.Errorf("docs/%s does not show the channels as they are; run make docs", page)
			}
		})
	}
}

// responses writes a table for each channel. Responses with the same consequences share a row.
func responses() string {
	var all strings.Builder
	for _, channel := range (settings.Channels{}).All() {
		rows := map[string][]string{}
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
			rows[outcome] = append(rows[outcome], row.Response())
		}
		if len(order) == 0 {
			continue
		}
		fmt.Fprintf(&all, "## %s\n\n| response | notification | reached anybody | concerns |\n|---|---|---|---|\n", channel.Name)
		for _, outcome := range order {
			fmt.Fprintf(&all, "| %s | %s |\n", strings.Join(rows[outcome], "<br>"), outcome)
		}
		all.WriteString("\n")
	}
	return strings.TrimSuffix(all.String(), "\n")
}

// settingsOfChannels writes which flags each channel has.
func settingsOfChannels() string {
	text := "| channel | settings |\n|---|---|\n"
	for field := range reflect.TypeFor[settings.Channels]().Fields() {
		prefix := field.Tag.Get("prefix")
		var flags []string
		if prefix != "" {
			for setting := range field.Type.Fields() {
				flags = append(flags, "`--"+prefix+setting.Tag.Get("name")+"`")
			}
		}
		if len(flags) > 0 {
			text += fmt.Sprintf("| `%s` | %s |\n", strings.TrimSuffix(prefix, "-"), strings.Join(flags, ", "))
		}
	}
	return text
}

// deliveries writes what the channels recommend for their deliveries, as policy check prints it.
func deliveries(t *testing.T) string {
	t.Helper()
	p, err := policy.Parse("", []byte("version: 1\ncategories: {default: {}}"))
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(p.Describe(settings.Channels{}.Deliveries()), "\n\n")
	return "\n```text\n" + table + "```\n"
}
