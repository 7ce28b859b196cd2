package night_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// section is a chapter of the page.
type section struct {
	title  string
	nights []*night
}

func sections() []section {
	return []section{
		{"Somebody wants it so", ordered()},
		{"It ended undelivered", ends()},
		{"A provider does not take it", providers()},
		{"A process, a store, a clock or a file", machines()},
	}
}

const (
	// page is where the table is written to.
	page = "../../docs/night.md"
	// fewest is how many cases there must be.
	fewest = 30
)

// The page says what the table says.
func TestPage(t *testing.T) {
	t.Parallel()
	written := written(t)
	if *update {
		if err := os.WriteFile(page, []byte(written), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	is, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(is), written); diff != "" {
		t.Errorf("docs/night.md is not what the table says; run make night (-page +table):\n%s", diff)
	}
}

const head = `# What you see when something is wrong

Somebody says that nothing arrives. Each section below is one trouble: what ` + "`dispatcher user ada`" + `,
` + "`dispatcher explain n1`" + `, the dashboard and the alerts say of it, and what to do. Tests make each trouble in a running
deployment and compare what is said with this page, word by word. Words in capitals, such as TIME, stand for what
differs each time. The [runbook](runbook.md) has a section for each alert.

<!-- Written by make night from the table in test/night. -->
`

// written is the page.
func written(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	text.WriteString(head)
	known := map[string]bool{}
	for _, s := range sections() {
		fmt.Fprintf(&text, "\n**%s**\n\n", s.title)
		for _, c := range s.nights {
			fmt.Fprintf(&text, "* [%s](#%s)\n", c.title, anchor(c.title))
			if known[c.title] {
				t.Errorf("%s is there twice", c.title)
			}
			known[c.title] = true
		}
	}
	if len(known) < fewest {
		t.Errorf("there are %d cases, want at least %d", len(known), fewest)
	}
	for _, s := range sections() {
		for _, c := range s.nights {
			c.write(t, &text)
		}
	}
	return text.String()
}

// write writes a section of the page.
func (c *night) write(t *testing.T, text *strings.Builder) {
	t.Helper()
	if (len(c.alerts) == 0) == (c.calm == "") {
		t.Errorf("%s: either alerts fire, or there is a reason why none does", c.title)
	}
	dashboard, alerts := "nothing", "none: "+c.calm
	if len(c.dashboard) > 0 {
		dashboard = strings.Join(c.dashboard, "<br>")
	}
	if len(c.alerts) > 0 {
		alerts = ""
		for i, name := range c.alerts {
			if i > 0 {
				alerts += ", "
			}
			alerts += fmt.Sprintf("[%s](runbook.md#%s)", name, strings.ToLower(name))
		}
	}
	fmt.Fprintf(text, "\n## %s\n\n%s\n\n| who | says |\n|---|---|\n", c.title, c.happens)
	for _, row := range [][2]string{
		{"`user`", c.user}, {"`explain`", c.explain}, {"dashboard", dashboard}, {"alerts", alerts}, {"do", c.do},
	} {
		fmt.Fprintf(text, "| %s | %s |\n", row[0], row[1])
	}
}

// anchor is the name that a heading has in links.
func anchor(title string) string {
	return strings.ReplaceAll(regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(title), ""), " ", "-")
}
