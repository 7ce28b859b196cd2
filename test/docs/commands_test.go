package docs_test

import (
	"bufio"
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// block is a code block of a page.
type block struct {
	page string
	// language is what follows the fence; "indented" for a block without one.
	language, text string
}

// exception is a block of commands that no test runs as printed.
type exception struct {
	// page and first name the block by its first line.
	page, first string
	// reason says why it can't be run, and check looks at what it is about instead.
	reason string
	check  func(t *testing.T, text string)
}

// notRun are all exceptions. A block that is new in README.md or below docs/ is run, or it fails
// TestEveryCommandBlockIsRun until it is here with its reason.
var notRun = []exception{
	{
		page: "README.md", first: "go run ./cmd/dispatcher demo ",
		reason: "it runs until somebody stops it", check: demoRunsUntilItIsStopped,
	},
	{
		page: "docs/operate.md", first: "useradd --system --shell /usr/sbin/nologin pacer",
		reason: "it needs root and systemd", check: installsTheUnits,
	},
	{
		page:   "docs/measurements/chaos.md",
		first:  "CHAOS_SEED=7 make chaos              begin with seed 7; each schedule has the next one (default: the time)",
		reason: "each runs for up to an hour", check: namesTargets,
	},
}

// runPages are the pages whose blocks of commands a test runs, one after the other in one shell.
var runPages = []string{readmePage, tutorialPage, operatePage}

// noCommands are the blocks without a language, by how they begin. They hold no commands.
var noCommands = []exception{
	{page: "README.md", first: " producers ──▶ API", reason: "a picture"},
	{page: "docs/operate.md", first: "ACL SETUSER pacer on >PASSWORD", reason: "internal/app tests these rights"},
	{page: "docs/channels.md", first: "order-shipped/default/title.txt", reason: "files and what they hold"},
	{page: "docs/measurements/scale.md", first: "shards          ≥", reason: "formulas"},
}

// shells are the languages of commands.
var shells = []string{"sh", "bash", "shell", "zsh", "console"}

// TestEveryCommandBlockIsRun wants each block of commands in README.md and below docs/ to be run by a test as printed,
// or to be in the list of those that can't.
func TestEveryCommandBlockIsRun(t *testing.T) {
	t.Parallel()
	met := map[*exception]bool{}
	for _, b := range blocks(t) {
		isShell := slices.Contains(shells, b.language)
		switch e := b.among(notRun); {
		case (isShell || b.language == "indented") && e != nil:
			met[e] = true
			t.Run(e.page+" "+e.reason, func(t *testing.T) {
				t.Parallel()
				e.check(t, b.text)
			})
		case b.language == "sh" && slices.Contains(runPages, b.page):
		case isShell || b.language == "indented":
			t.Errorf("%s: no test runs the commands\n%s\nRun them, or add them to notRun with the reason", b.page, b.text)
		case b.language == "":
			e := b.among(noCommands)
			if e == nil {
				t.Errorf("%s: the block has no language:\n%s\nSay sh for commands, text for what they print", b.page, b.text)
			}
			met[e] = true
		}
	}
	for _, list := range [][]exception{notRun, noCommands} {
		for i := range list {
			if e := &list[i]; !met[e] {
				t.Errorf("%s has no block any more that begins with %q: take it off the list", e.page, e.first)
			}
		}
	}
}

// among finds the block's exception in a list.
func (b block) among(list []exception) *exception {
	for i := range list {
		if e := &list[i]; e.page == b.page && strings.HasPrefix(b.text, e.first) {
			return e
		}
	}
	return nil
}

var (
	fence       = regexp.MustCompile("^ *```(\\w*)$")
	listItem    = regexp.MustCompile(`^ *([-*]|\d+\.) `)
	makeSetting = regexp.MustCompile(`(?m)^(\w+)=`)
	makeTarget  = regexp.MustCompile(`\bmake ([a-z-]+)`)
	unitEnabled = regexp.MustCompile(`\bpacer[a-z-]*\b`)
)

// blocks are all code blocks of README.md and of the pages below docs/.
func blocks(t *testing.T) []block {
	t.Helper()
	var all []block
	for _, page := range pages(t) {
		if page == "README.md" || strings.HasPrefix(page, "docs/") {
			all = append(all, blocksOf(page, readFile(t, page))...)
		}
	}
	if len(all) < 30 {
		t.Fatalf("found %d code blocks only", len(all))
	}
	return all
}

// blocksOf takes a page apart: fenced blocks, and indented ones that belong to no list.
func blocksOf(page, text string) []block {
	var all []block
	var open *block
	inList, blank, indent := false, true, 0
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		found := fence.FindStringSubmatch(line)
		switch {
		case open != nil && open.language != "indented" && found == nil:
			open.text += strings.TrimPrefix(line, strings.Repeat(" ", indent)) + "\n"
			continue
		case found != nil && open != nil && open.language != "indented":
			all, open = append(all, *open), nil
			continue
		case found != nil:
			open, indent = &block{page: page, language: found[1]}, len(line)-len(strings.TrimLeft(line, " "))
			continue
		}
		switch code, isCode := strings.CutPrefix(line, "    "); {
		case isCode && (open != nil || blank && !inList):
			if open == nil {
				open = &block{page: page, language: "indented"}
			}
			open.text += code + "\n"
		case open != nil && strings.TrimSpace(line) != "":
			all, open = append(all, *open), nil
		}
		blank = strings.TrimSpace(line) == ""
		if !blank && !strings.HasPrefix(line, " ") {
			inList = listItem.MatchString(line)
		}
	}
	if open != nil {
		all = append(all, *open)
	}
	return all
}

// installsTheUnits looks whether the user, the program and the units of the commands are those of deploy/systemd.
func installsTheUnits(t *testing.T, text string) {
	t.Helper()
	_, enabled, _ := strings.Cut(text, "systemctl enable --now ")
	enabled, _, _ = strings.Cut(enabled, "#")
	units := unitEnabled.FindAllString(enabled, -1)
	if len(units) != 2 {
		t.Errorf("the commands enable %q, want the migration and the dispatcher", units)
	}
	for _, unit := range units {
		for _, line := range []string{
			"User=pacer\n", "Group=pacer\n", "EnvironmentFile=/etc/pacer/pacer.env\n",
			"ExecStart=/usr/local/bin/dispatcher ",
		} {
			if !strings.Contains(readFile(t, "deploy/systemd/"+unit+".service"), line) {
				t.Errorf("deploy/systemd/%s.service lacks %q, for which docs/operate.md prepares", unit, line)
			}
		}
	}
}

// namesTargets looks whether the Makefile has what the commands make, and the tests what they set.
func namesTargets(t *testing.T, text string) {
	t.Helper()
	sources, err := filepath.Glob(filepath.Join(top, "test/chaos/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, name := range append(sources, filepath.Join(top, "Makefile")) {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(file)
	}
	for _, variable := range makeSetting.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(code.String(), variable[1]) {
			t.Errorf("nothing reads %s", variable[1])
		}
	}
	for _, target := range makeTarget.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(readFile(t, "Makefile"), "\n"+target[1]+":") {
			t.Errorf("the Makefile has no target %s", target[1])
		}
	}
}

// demoRunsUntilItIsStopped runs the demo until it shows a delivery.
func demoRunsUntilItIsStopped(t *testing.T, _ string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	demo := exec.CommandContext(ctx, filepath.Join(programs(t), "dispatcher"), "demo")
	demo.Dir = t.TempDir()
	demo.Env = cleanEnvironment()
	out, err := demo.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	first, arrived := "", false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		first = cmp.Or(first, lines.Text())
		if !arrived && strings.Contains(lines.Text(), "  arrive  ") {
			arrived = true
			_ = demo.Process.Signal(os.Interrupt) // fails when it is gone
		}
	}
	if err := demo.Wait(); err != nil || !arrived || !strings.Contains(first, "dashboard is at http://") {
		t.Errorf("ended with %v; shown was a delivery: %t; the first line was %q", err, arrived, first)
	}
}
