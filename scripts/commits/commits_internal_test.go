package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestFaultsOfMessages(t *testing.T) {
	t.Parallel()
	const why = "\n\nIt was wrong."
	tests := []struct{ name, message, want string }{ // want: the one fault, or empty
		{name: "imperative", message: "Refuse a URL without a host" + why},
		{name: "area", message: "agenda: keep the order of what came first" + why},
		{name: "areas", message: "push/webhook, push/gate: try again" + why},
		{name: "verb that ends like a plural", message: "Process what is due" + why},
		{name: "verb that ends like a gerund", message: "Bring back the lost" + why},
		{name: "revert", message: "Revert \"A thing\"\n\nThis reverts commit 0123456789abcdef."},
		{
			name:    "address in the body",
			message: "Link the page" + why + "\n\n<https://example.com/" + strings.Repeat("x", 120) + ">",
		},
		{name: "no body", message: "Refuse a URL without a host", want: "no body"},
		{name: "body without a line between", message: "Refuse a URL\nIt was wrong.", want: "no empty line"},
		{name: "long subject", message: "Refuse " + strings.Repeat("x", 66) + why, want: "73 characters"},
		{name: "subject of characters, not bytes", message: "Refuse " + strings.Repeat("é", 65) + why},
		{name: "full stop", message: "Refuse a URL." + why, want: "full stop"},
		{name: "what is", message: "A partition gives nothing out" + why, want: `imperative ("a")`},
		{name: "what is, with an area", message: "faults: the last are seen red" + why, want: `imperative ("the")`},
		{name: "third person", message: "Adds a thing" + why, want: `imperative ("adds")`},
		{name: "past", message: "Added a thing" + why, want: `imperative ("added")`},
		{name: "gerund", message: "Adding a thing" + why, want: `imperative ("adding")`},
		{name: "nothing after the area", message: "agenda: " + why, want: "imperative"},
		{name: "long line", message: "Refuse it\n\n" + strings.Repeat("why ", 31), want: "want at most 120"},
		{name: "fixup", message: "fixup! Refuse it", want: "part of another"},
		{name: "unfinished", message: "WIP", want: "part of another"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			faults := faultsOf(tt.message)
			switch {
			case tt.want == "" && len(faults) != 0:
				t.Errorf("faults %q, want none", faults)
			case tt.want != "" && (len(faults) != 1 || !strings.Contains(faults[0], tt.want)):
				t.Errorf("faults %q, want one with %q", faults, tt.want)
			}
		})
	}
}

// The longest line is the one that editors are told of.
func TestLineLengthIsThatOfEditorconfig(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", ".editorconfig"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\nmax_line_length = 120\n") || maxLine != 120 {
		t.Errorf(".editorconfig does not say %d", maxLine)
	}
}

func TestRangesOfARepository(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		commits string                                     // the range that is asked for
		lay     func(t *testing.T, original string) string // makes the checkout that is asked
		faults  int
		err     bool
		says    string
	}{
		{name: "the branch's own", faults: 1, says: "2 looked at, 1 faults"},
		{name: "a range", commits: "main~1..main", says: "1 looked at, 0 faults"},
		{name: "all", commits: "HEAD", faults: 1, says: "4 looked at, 1 faults"},
		{name: "no such commit", commits: "nowhere..HEAD", err: true},
		{name: "option instead of a range", commits: "--all", err: true},
		{name: "clone", lay: clone, faults: 1, says: "2 looked at"},
		{name: "shallow clone", lay: clone1, says: "shallow clone does not have the history"},
		{
			name: "range of a shallow clone", lay: clone1, commits: "main..HEAD",
			says: "shallow clone does not have the history",
		},
		{name: "no main", lay: withoutMain, says: "no main to compare with"},
		{name: "tarball", lay: tarball, says: "no checkout of Git"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			folder := repository(t)
			if tt.lay != nil {
				folder = tt.lay(t, folder)
			}
			var out bytes.Buffer
			faults, err := check(t.Context(), checkout(folder), tt.commits, &out)
			if faults != tt.faults || (err != nil) != tt.err || !strings.Contains(out.String(), tt.says) {
				t.Errorf("%d faults, error %v, output %q; want %d, %t, %q", faults, err, &out, tt.faults, tt.err,
					tt.says)
			}
		})
	}
}

// repository makes one with two commits on main and two more on the branch that is checked out, the last with a fault.
func repository(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	run(t, folder, "init", "--quiet", "--initial-branch=main")
	for _, message := range []string{"Begin\n\nFor a reason.", "Go on\n\nFor a reason."} {
		run(t, folder, "commit", "--quiet", "--allow-empty", "-m", message)
	}
	run(t, folder, "checkout", "--quiet", "-b", "work")
	for _, message := range []string{"Repair it\n\nFor a reason.", "Repaired again\n\nFor a reason."} {
		run(t, folder, "commit", "--quiet", "--allow-empty", "-m", message)
	}
	return folder
}

// clone has the whole history and main at its origin alone.
func clone(t *testing.T, original string) string {
	t.Helper()
	folder := t.TempDir()
	run(t, folder, "clone", "--quiet", "--branch=work", "file://"+original, ".")
	return folder
}

// clone1 has one commit of each branch.
func clone1(t *testing.T, original string) string {
	t.Helper()
	folder := t.TempDir()
	run(t, folder, "clone", "--quiet", "--depth=1", "--no-single-branch", "--branch=work", "file://"+original, ".")
	return folder
}

// withoutMain has no branch of this name.
func withoutMain(t *testing.T, original string) string {
	t.Helper()
	run(t, original, "branch", "--quiet", "-D", "main")
	return original
}

// tarball has nothing of Git.
func tarball(t *testing.T, original string) string {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(original, ".git")); err != nil {
		t.Fatal(err)
	}
	return original
}

// run has Git do something, whatever the settings of this machine's user.
func run(t *testing.T, folder string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", args...)
	command.Dir = folder
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull,
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada",
		"GIT_COMMITTER_EMAIL=ada@example.com")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}
