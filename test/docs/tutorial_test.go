package docs_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/processtest"
)

// What the tutorial says and a test has to do otherwise.
const (
	buildCommand = "go build -o bin/ ./cmd/..."
	apiAddress   = "127.0.0.1:8080"
)

// patience is how long the commands may take before something must be broken.
const patience = 10 * time.Minute

// endOfStep is printed after each step of the script.
const endOfStep = "=== end of step ==="

// A reader is slower than a worker; the script waits instead until nothing is on its way.
const untilIdle = `until curl -s http://%s/v1/stats | grep -q '"queued":0,.*"sending":0'; do sleep 0.05; done` + "\n"

// step is a command block of the tutorial, and lines of what it prints.
type step struct{ commands, prints string }

// TestTutorialIsTrue runs every command of the tutorial, and looks in what each block prints for the lines that the
// page shows, in their order. Times and durations may differ.
func TestTutorialIsTrue(t *testing.T) {
	t.Parallel()
	steps := tutorialSteps(t)
	folder, err := filepath.Abs(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	outputs := strings.Split(runScript(t, folder, script(t, folder, steps)), endOfStep+"\n")
	if len(outputs) != len(steps)+1 {
		t.Fatalf("%d of %d steps ended", len(outputs)-1, len(steps))
	}
	for i, s := range steps {
		rest := shape(outputs[i])
		for _, line := range shape(s.prints) {
			found := slices.Index(rest, line)
			if found < 0 {
				t.Errorf("docs/tutorial.md, after\n%s\nthe line\n\t%s\ndoes not come; printed was:\n%s", s.commands,
					line, outputs[i])
				break
			}
			rest = rest[found+1:]
		}
	}
}

// tutorialSteps reads the blocks of the page.
func tutorialSteps(t *testing.T) []step {
	t.Helper()
	var steps []step
	for _, part := range strings.Split(readFile(t, "docs/tutorial.md"), "\n```sh\n")[1:] {
		commands, rest, _ := strings.Cut(part, "\n```\n")
		s := step{commands: commands}
		if shown := fences(rest, "text"); len(shown) > 0 {
			s.prints = shown[0]
		}
		steps = append(steps, s)
	}
	if len(steps) < 5 {
		t.Fatalf("docs/tutorial.md has %d blocks of commands only", len(steps))
	}
	return steps
}

// script is all steps in one, which builds from the sources and listens on a free port.
func script(t *testing.T, folder string, steps []step) string {
	t.Helper()
	sources, err := filepath.Abs(top)
	if err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	var b strings.Builder
	fmt.Fprintf(&b, "export PACER_LISTEN=%s PACER_SERVER=http://%s PACER_OPS_LISTEN=%s\n", address, address,
		freeAddress(t))
	for _, s := range steps {
		b.WriteString(s.commands + "\n")
		if strings.Contains(s.commands, "curl") || strings.Contains(s.commands, "bin/enqueue") {
			fmt.Fprintf(&b, untilIdle, address)
		}
		b.WriteString("echo; echo '" + endOfStep + "'\n")
	}
	text := b.String()
	if strings.Count(text, buildCommand) != 1 || !strings.Contains(text, apiAddress) {
		t.Fatalf("docs/tutorial.md does not build with %q, or does not call %s", buildCommand, apiAddress)
	}
	build := fmt.Sprintf("go -C '%s' build -o '%s/bin/' ./cmd/...", sources, folder)
	return strings.ReplaceAll(strings.Replace(text, buildCommand, build, 1), apiAddress, address)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := processtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return processtest.Addr(port)
}

// runScript gives what a script prints. Nothing that it starts outlives it.
func runScript(t *testing.T, folder, text string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-eu", "-o", "pipefail", "-c", text)
	command.Dir = folder
	command.Env = cleanEnvironment()
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	err := command.Run()
	if command.Process == nil {
		t.Fatal(err)
	}
	_ = command.Cancel() // fails when all is gone, as it should be
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(folder, "dispatcher.log")) // none when it never started
		t.Fatalf("the tutorial's commands: %v\n%s\ndispatcher.log:\n%s", err, out.String(), log)
	}
	return out.String()
}

// cleanEnvironment is this program's environment without settings of pacer.
func cleanEnvironment() []string {
	var environ []string
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "PACER_") && name != "REDIS_URL" && name != "DATABASE_URL" {
			environ = append(environ, variable)
		}
	}
	return environ
}

var (
	timeOfDay = regexp.MustCompile(`(\d{4}-\d\d-\d\dT)?\d\d:\d\d:\d\d(\.\d+)?Z?`)
	folderOf  = regexp.MustCompile(`/\S*/(policy\.yaml)`)
	elapsed   = regexp.MustCompile(`\bin (\d+(\.\d+)?(h|m|s|ms|µs))+`)
)

// shape are the lines of a text without what differs from run to run.
func shape(text string) []string {
	text = folderOf.ReplaceAllString(text, "$1")
	text = elapsed.ReplaceAllString(timeOfDay.ReplaceAllString(text, "TIME"), "in TIME")
	var lines []string
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 {
			lines = append(lines, strings.Join(words, " "))
		}
	}
	return lines
}
