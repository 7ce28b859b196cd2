package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// decisionHead is how a decision begins: number, title, date, status.
var decisionHead = regexp.MustCompile(`^# (\d+)\. (.+)\n\nDate: (\d{4}-\d\d-\d\d)\. Status: (.+)\.\n\n`)

// decisionStatus is what a status may be. What supersedes is a link.
var decisionStatus = regexp.MustCompile(
	`^(?:accepted|(?:accepted, partly )?superseded by \[(\d+)\]\(([^)]+)\))$`)

// decision is the head of one page.
type decision struct {
	number                    int
	page, title, date, status string
	text                      string
}

func decisions(t *testing.T) []decision {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(top, "docs/adr/0*.md"))
	if err != nil || len(names) < 25 {
		t.Fatalf("found %d decisions: %v", len(names), err)
	}
	var all []decision
	for _, name := range names {
		d := decision{page: filepath.Base(name), text: readFile(t, "docs/adr/"+filepath.Base(name))}
		head := decisionHead.FindStringSubmatch(d.text)
		if head == nil {
			t.Fatalf("%s does not begin with number, title, date and status", d.page)
		}
		if d.number, err = strconv.Atoi(head[1]); err != nil {
			t.Fatal(err)
		}
		d.title, d.date, d.status = head[2], head[3], head[4]
		all = append(all, d)
	}
	return all
}

// TestDecisionsHaveTheirForm wants decisions numbered in order, and each superseded one to name a later decision and to
// say what of it is superseded.
func TestDecisionsHaveTheirForm(t *testing.T) {
	t.Parallel()
	all := decisions(t)
	for i, d := range all {
		if d.number != i+1 || !strings.HasPrefix(d.page, fmt.Sprintf("%04d-", d.number)) {
			t.Errorf("%s is decision %d, in place %d", d.page, d.number, i+1)
		}
		status := decisionStatus.FindStringSubmatch(d.status)
		if status == nil {
			t.Errorf("%s has the status %q", d.page, d.status)
			continue
		}
		if status[1] == "" {
			continue
		}
		by, err := strconv.Atoi(status[1])
		if err != nil || by <= d.number || by > len(all) || all[by-1].page != status[2] || all[by-1].date < d.date {
			t.Errorf("%s is superseded by %s, %s, which is no later decision", d.page, status[1], status[2])
		}
		if !strings.Contains(d.text, "\n\n**Superseded:** ") {
			t.Errorf("%s does not say what of it is superseded", d.page)
		}
	}
}

// TestIndexOfDecisionsIsCurrent compares the rows of the index with the pages.
func TestIndexOfDecisionsIsCurrent(t *testing.T) {
	t.Parallel()
	var want strings.Builder
	for _, d := range decisions(t) {
		fmt.Fprintf(&want, "| %d | [%s](%s) | %s |\n", d.number, d.title, d.page, d.status)
	}
	_, rows, _ := strings.Cut(readFile(t, "docs/adr/README.md"), "|---|---|---|\n")
	if rows != want.String() {
		t.Errorf("docs/adr/README.md must end with these rows:\n%s", want.String())
	}
}

var (
	citedFile     = regexp.MustCompile("`((?:internal|test|docs|scripts|cmd|bench|deploy|client|migrations|tools)/[^`]+)`")
	citedScript   = regexp.MustCompile("`([a-z]+\\.lua)`")
	citedName     = regexp.MustCompile("`([a-z]+)\\.([A-Z]\\w+)`")
	citedDecision = regexp.MustCompile(`ADRs? (\d+)`)
)

// TestWhatDecisionsCiteExists looks for the files, scripts, Go names and decisions that decisions in force name.
func TestWhatDecisionsCiteExists(t *testing.T) {
	t.Parallel()
	all, found := decisions(t), sources(t)
	for _, d := range all {
		for _, cited := range citedDecision.FindAllStringSubmatch(d.text, -1) {
			if n, err := strconv.Atoi(cited[1]); err != nil || n < 1 || n > len(all) {
				t.Errorf("%s cites %s, which does not exist", d.page, cited[0])
			}
		}
		if strings.HasPrefix(d.status, "superseded") {
			continue // it tells of what is gone
		}
		citesExist(t, "docs/adr/"+d.page, found)
	}
}

// TestWhatPagesOnExtendingCiteExists looks for what the pages tell people to touch.
func TestWhatPagesOnExtendingCiteExists(t *testing.T) {
	t.Parallel()
	found := sources(t)
	for _, page := range pages(t) {
		if strings.HasPrefix(page, "docs/extend/") {
			citesExist(t, page, found)
		}
	}
}

// citesExist looks for the files, scripts and Go names that a page cites.
func citesExist(t *testing.T, page string, found map[string]string) {
	t.Helper()
	text := readFile(t, page)
	for _, cited := range citedFile.FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join(top, cited[1])); err != nil {
			t.Errorf("%s cites %s, which does not exist", page, cited[1])
		}
	}
	for _, cited := range citedScript.FindAllStringSubmatch(text, -1) {
		if found[cited[1]] == "" {
			t.Errorf("%s cites %s, which does not exist", page, cited[1])
		}
	}
	for _, cited := range citedName.FindAllStringSubmatch(text, -1) {
		if !regexp.MustCompile(`(?m)^(func|type|var|const|\t)\s*` + cited[2] + `\b`).MatchString(found[cited[1]]) {
			t.Errorf("%s cites %s.%s, which does not exist", page, cited[1], cited[2])
		}
	}
}

// sources are the texts of all Go packages and Lua scripts of the product, by package name and by file name.
func sources(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir(filepath.Join(top, "internal"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name := filepath.Base(path)
		switch filepath.Ext(path) {
		case ".go":
			name = filepath.Base(filepath.Dir(path))
		case ".lua":
		default:
			return nil
		}
		text, err := os.ReadFile(path)
		texts[name] += string(text) + "\n"
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}
