// Package shelltest lets tests ask real shells what they make of a program's completion script.
package shelltest

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// session loads a script as a user does, replaces the program by one that shows its arguments, and types a line.
const session = `source <("$PROGRAM" completion bash)
function NAME() { printf 'ran:'; printf ' <%s>' "$@"; echo; }
LINE
exit
`

// Complete types a line in an interactive bash, where a tab is the key that completes, and gives the arguments with
// which bash then runs the command NAME: "<serve> <--roles>". program is what NAME's script comes from.
func Complete(t *testing.T, program, name, line string, environ ...string) string {
	t.Helper()
	bash := exec.CommandContext(t.Context(), "bash", "--norc", "--noprofile", "-i")
	bash.Env = append(bash.Environ(), append(environ, "PROGRAM="+program, "PS1=", "INPUTRC=/dev/null")...)
	bash.Stdin = strings.NewReader(strings.NewReplacer("NAME", name, "LINE", line).Replace(session))
	bash.Dir = t.TempDir() // without files whose names could complete
	var out, errs bytes.Buffer
	bash.Stdout, bash.Stderr = &out, &errs
	if err := bash.Run(); err != nil {
		t.Fatalf("bash: %v\n%s", err, errs.String())
	}
	_, ran, found := strings.Cut(out.String(), "ran: ")
	if !found {
		t.Fatalf("bash did not run %s:\n%s%s", name, out.String(), errs.String())
	}
	return strings.TrimSpace(ran)
}

// CheckSyntax has a shell read a script without running it. Where the shell is not installed it says so, and the script
// goes unread: pacer's tests install neither zsh nor fish, which nothing else here needs.
func CheckSyntax(t *testing.T, shell, script string) {
	t.Helper()
	path, err := exec.LookPath(shell)
	if err != nil {
		t.Logf("%s is not installed: the syntax of its completion script is not checked here", shell)
		return
	}
	command := exec.CommandContext(t.Context(), path, "-n")
	command.Stdin = strings.NewReader(script)
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%s does not read its completion script: %v\n%s", shell, err, out)
	}
}
