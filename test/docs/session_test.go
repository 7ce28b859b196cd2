package docs_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/processtest"
)

// The addresses that the pages name. On a busy machine others may have them, so each session has its own.
const (
	apiAddress      = "127.0.0.1:8080"
	opsAddress      = "127.0.0.1:8081"
	receiverAddress = "127.0.0.1:9099"
)

// patience is how long the commands may take before something must be broken.
const patience = 10 * time.Minute

// endOfStep is printed after each step of the script.
const endOfStep = "=== end of step ==="

// step is a command block of a page, and lines of what it prints.
type step struct {
	commands, prints string
	// then are commands of the test: they wait, as a reader does.
	then string
}

// stepsOf reads the command blocks of a page, each with the text that follows it.
func stepsOf(t *testing.T, page string) []step {
	t.Helper()
	var steps []step
	for _, part := range strings.Split(readFile(t, page), "\n```sh\n")[1:] {
		commands, rest, _ := strings.Cut(part, "\n```\n")
		s := step{commands: commands}
		if shown := fences(rest, "text"); len(shown) > 0 {
			s.prints = shown[0]
		}
		steps = append(steps, s)
	}
	return steps
}

// session is a shell in an empty folder that finds both programs and nothing of the settings of this machine.
type session struct {
	folder, path string
	replaced     []string // what the pages name, and what stands for it here, by turns
}

func newSession(t *testing.T) *session {
	t.Helper()
	folder, err := filepath.Abs(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &session{folder: folder, path: programs}
	for _, address := range []string{apiAddress, opsAddress, receiverAddress} {
		s.replace(address, freeAddress(t))
	}
	return s
}

func (s *session) replace(named, here string) { s.replaced = append(s.replaced, named, here) }

// run runs the steps in one shell and gives what each of them prints.
func (s *session) run(t *testing.T, steps []step) []string {
	t.Helper()
	var script strings.Builder
	script.WriteString("export PACER_LISTEN=" + apiAddress + " PACER_SERVER=http://" + apiAddress +
		" PACER_OPS_LISTEN=" + opsAddress + "\n")
	for _, step := range steps {
		script.WriteString(step.commands + "\n" + step.then + "\necho; echo '" + endOfStep + "'\n")
	}
	outputs := strings.Split(s.bash(t, strings.NewReplacer(s.replaced...).Replace(script.String())), endOfStep+"\n")
	if len(outputs) != len(steps)+1 {
		t.Fatalf("%d of %d steps ended", len(outputs)-1, len(steps))
	}
	return outputs[:len(steps)]
}

// bash returns what a script prints. Nothing that it starts outlives it.
func (s *session) bash(t *testing.T, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-eu", "-o", "pipefail", "-c", script)
	command.Dir = s.folder
	command.Env = append(cleanEnvironment(), "PATH="+s.path+":"+os.Getenv("PATH"))
	// A file, unlike a pipe, does not wait for what runs in the background.
	out, err := os.Create(filepath.Join(s.folder, "printed.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	command.Stdout, command.Stderr = out, out
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	runErr := command.Run()
	if command.Process == nil {
		t.Fatal(runErr)
	}
	_ = command.Cancel() // fails when all is gone
	printed, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	if runErr != nil {
		log, _ := os.ReadFile(filepath.Join(s.folder, "dispatcher.log")) // of the dispatcher; none when it never started
		t.Fatalf("the commands: %v\n%s\n%s", runErr, bytes.TrimSpace(printed), log)
	}
	return string(printed)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := processtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return processtest.Addr(port)
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
	day       = regexp.MustCompile(`\b\d{4}-\d\d-\d\d\b`)
	weekday   = regexp.MustCompile(`\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) DAY `)
	continued = regexp.MustCompile(`\n {14,}`)                          // a line that was too long, of user and explain
	wrapped   = regexp.MustCompile(`(?:(goes out at)\s+)?\bDAY\s+TIME`) // the first line of explain
	folderOf  = regexp.MustCompile(`/\S*/(policy\.yaml)`)
	elapsed   = regexp.MustCompile(`\bin (\d+(\.\d+)?(h|m|s|ms|µs))+`)
	gapOf     = regexp.MustCompile(`, (the first|\d+\.\d{3} s after the one before), `)
)

// shape are the lines of a text without what differs from run to run. Lines that were too long are whole again: a time
// of another day than today is longer, since it has its date, and one that is more than a day ahead has its weekday
// too.
func shape(text string) []string {
	text = continued.ReplaceAllString(text, " ")
	text = folderOf.ReplaceAllString(text, "$1")
	text = madeID.ReplaceAllString(gapOf.ReplaceAllString(text, ", GAP, "), "ID")
	text = elapsed.ReplaceAllString(timeOfDay.ReplaceAllString(text, "TIME"), "in TIME")
	text = weekday.ReplaceAllString(day.ReplaceAllString(text, "DAY"), "")
	text = wrapped.ReplaceAllString(text, "$1 TIME")
	var lines []string
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 {
			lines = append(lines, strings.Join(words, " "))
		}
	}
	return lines
}
