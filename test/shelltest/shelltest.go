// Package shelltest lets tests ask real shells what they make of a program's completion script.
package shelltest

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Shells are those that a program writes a completion script for. `make install-servers` installs them.
var Shells = []string{"bash", "zsh", "fish"}

// patience bounds a session. A zsh that never shows what is waited for would wait for ever.
const patience = 2 * time.Minute

// lessCPU bounds the processor time of each process of a session, in seconds. The inner zsh of one that was ended would
// otherwise go on without its terminal, and keep a core busy.
const lessCPU = "ulimit -t 60\n"

// inBash loads a script as a user does, replaces the program by one that shows its arguments, and types a line.
const inBash = `source <("$PROGRAM" completion bash)
function NAME() { printf 'ran:'; printf ' <%s>' "$@"; echo; }
LINE
exit
`

// inZsh does the same in a zsh that has a terminal of its own: without one, zsh completes nothing.
const inZsh = `zmodload zsh/zpty
zpty z 'zsh -f -i'
zpty -w z 'PROMPT= ; source <("$PROGRAM" completion zsh)'
zpty -w z 'NAME() { printf "ran:"; printf " <%s>" "$@"; echo " :end"; }; print -r -- "set"-up'
zpty -r z said '*set-up*'
zpty -w -n z "$LINE"$'\n'
zpty -r z said $'*ran: *:end*'
print -r -- "$said"
zpty -d z
`

// Complete types a line in an interactive shell, where a tab is the key that completes, and gives the arguments with
// which the shell then runs the command NAME: "<serve> <--roles>". program is what NAME's script comes from.
func Complete(t *testing.T, shell, program, name, line string, environ ...string) string {
	t.Helper()
	environ = append(environ, "PROGRAM="+program, "LINE="+line, "PS1=", "INPUTRC=/dev/null", "HOME="+t.TempDir())
	fill := strings.NewReplacer("NAME", name, "LINE", line)
	var said string
	switch shell {
	case "bash":
		said = run(t, environ, lessCPU+fill.Replace(inBash), "bash", "--norc", "--noprofile", "-i")
	case "zsh":
		said = run(t, environ, lessCPU+strings.ReplaceAll(inZsh, "NAME", name), "zsh", "-f")
	default:
		return completeInFish(t, environ, name, line)
	}
	_, ran, found := strings.Cut(said, "ran: ")
	if !found {
		t.Fatalf("%s did not run %s: %s", shell, name, said)
	}
	ran, _, _ = strings.Cut(ran, " :end")
	return strings.TrimSpace(ran)
}

// completeInFish asks fish at each tab for what may follow, and types what all of that begins with.
func completeInFish(t *testing.T, environ []string, name, line string) string {
	t.Helper()
	parts := strings.Split(line, "\t")
	typed := ""
	for _, part := range parts[:len(parts)-1] {
		typed += part
		script := fmt.Sprintf("$PROGRAM completion fish | source; complete -C %q", typed)
		found := strings.Split(strings.TrimSpace(run(t, environ, "", "fish", "-N", "-c", script)), "\n")
		word := found[0]
		for _, other := range found[1:] {
			for !strings.HasPrefix(other, word) {
				word = word[:len(word)-1]
			}
		}
		typed = typed[:strings.LastIndexByte(typed, ' ')+1] + word
		if len(found) == 1 {
			typed += " "
		}
	}
	words := strings.Fields(strings.TrimPrefix(typed+parts[len(parts)-1], name))
	return "<" + strings.Join(words, "> <") + ">"
}

// run runs a shell in an empty folder, without files whose names could complete, and gives what it writes.
func run(t *testing.T, environ []string, input string, command ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	shell := exec.CommandContext(ctx, command[0], command[1:]...)
	shell.Env = append(shell.Environ(), environ...)
	shell.Stdin = strings.NewReader(input)
	shell.Dir = t.TempDir()
	var out, errs bytes.Buffer
	shell.Stdout, shell.Stderr = &out, &errs
	if err := shell.Run(); err != nil {
		t.Fatalf("%s: %v; make install-servers installs it\n%s", command[0], err, errs.String())
	}
	return out.String()
}
