package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// changelog has a section that is released, one that is empty, and what is not released yet.
const changelog = `# Changelog

## [Unreleased]

### Added

- Something new.

## [1.1.0] - 2026-02-01

## [1.0.0] - 2026-01-01

### Added

- The beginning, see [1.1.0].
`

func TestNotesAreTheChangelogsSection(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, version, want, fault string }{
		{name: "last", version: "1.0.0", want: "### Added\n\n- The beginning, see [1.1.0].\n"},
		{name: "unreleased", version: "Unreleased", want: "### Added\n\n- Something new.\n"},
		{name: "empty", version: "1.1.0", fault: "CHANGELOG.md says nothing under [1.1.0]"},
		{name: "missing", version: "2.0.0", fault: "CHANGELOG.md has no section [2.0.0]"},
		{name: "start of another", version: "1.0", fault: "CHANGELOG.md has no section [1.0]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			notes, err := notesOf(changelog, tt.version)
			if notes != tt.want || (err == nil) != (tt.fault == "") || err != nil && err.Error() != tt.fault {
				t.Errorf("notes %q, error %v; want %q, %q", notes, err, tt.want, tt.fault)
			}
		})
	}
}

// The project's own changelog can be cut: a heading in another form would make its section part of the one before.
func TestOwnChangelogHasItsHeadings(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := notesOf(string(text), "Unreleased"); err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, "## ") && !heading.MatchString(line) {
			t.Errorf("CHANGELOG.md: %q is no heading of a version", line)
		}
	}
}

func TestRefusedBeforeAnythingIsCompiled(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		args   []string
		change func(t *testing.T, source, out string)
		want   string // in the error; empty when nothing is refused
	}{
		{name: "release", args: []string{"-version", "v1.0.0"}},
		{name: "snapshot", args: []string{"-snapshot"}},
		{name: "no version", want: `version "" is not of the form v1.2.3`},
		{name: "version without v", args: []string{"-version", "1.0.0"}, want: `version "1.0.0" is not`},
		{name: "linker flag as version", args: []string{"-version", "v1.0.0 -X main.x=y"}, want: "is not of the form"},
		{name: "not in the changelog", args: []string{"-version", "v3.0.0"}, want: "no section [3.0.0]"},
		{
			name: "candidate not in the changelog", args: []string{"-version", "v1.0.0-rc.1"},
			want: "no section [1.0.0-rc.1]",
		},
		{
			name: "target without architecture", args: []string{"-version", "v1.0.0", "-targets", "linux"},
			want: `target "linux" is not`,
		},
		{
			name: "changed checkout", args: []string{"-version", "v1.0.0"}, change: changeCheckout,
			want: "the checkout has changes",
		},
		{name: "snapshot of a changed checkout", args: []string{"-snapshot"}, change: changeCheckout},
		{
			name: "something there already", args: []string{"-version", "v1.0.0"}, change: leaveSomething,
			want: "is not empty",
		},
		{name: "no checkout", args: []string{"-version", "v1.0.0"}, change: removeGit, want: "git status"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			source, out := checkout(t), filepath.Join(t.TempDir(), "dist")
			if tt.change != nil {
				tt.change(t, source, out)
			}
			// No target can be compiled in a repository that holds a changelog alone.
			err := run(t.Context(), append([]string{"-source", source, "-out", out}, tt.args...), t.Output())
			switch {
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %v, want %q", err, tt.want)
			case tt.want == "" && (err == nil || !strings.Contains(err.Error(), "go build")):
				t.Errorf("error %v, want none before the programs are compiled", err)
			}
		})
	}
}

// checkout makes a Git repository that holds a changelog and nothing else.
func checkout(t *testing.T) string {
	t.Helper()
	source := t.TempDir()
	if err := os.WriteFile(filepath.Join(source, "CHANGELOG.md"), []byte(changelog), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"add", "CHANGELOG.md"},
		{
			"-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false",
			"commit", "--quiet", "-m", "Begin",
		},
	} {
		command := exec.CommandContext(t.Context(), "git", args...)
		command.Dir = source
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	return source
}

// changeCheckout adds a file that is in no commit.
func changeCheckout(t *testing.T, source, _ string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(source, "new.go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// leaveSomething has a file lie where the release goes.
func leaveSomething(t *testing.T, _, out string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(out, "assets"), 0o700); err != nil {
		t.Fatal(err)
	}
}

// removeGit leaves the files alone, as a tarball has them.
func removeGit(t *testing.T, source, _ string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(source, ".git")); err != nil {
		t.Fatal(err)
	}
}
