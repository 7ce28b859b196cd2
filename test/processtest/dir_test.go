package processtest_test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/test/processtest"
)

// childEnv is the environment variable that turns this binary into a process which makes a directory. Its value says
// what the process does next.
const childEnv = "PROCESSTEST_CHILD"

const (
	childWaits = "wait" // with the directory in place, until standard input ends
	childEnds  = "end"  // at once, without removing the directory
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childEnv); role != "" {
		os.Exit(makeDir(role))
	}
	os.Exit(m.Run())
}

// makeDir makes a directory with a file in it and prints its path.
func makeDir(role string) int {
	dir, err := processtest.NewDir("child")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir.Path, "file"), []byte("x"), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(dir.Path)
	if role == childWaits {
		_, _ = bufio.NewReader(os.Stdin).ReadByte() // Its end is what matters.
	}
	return 0
}

// child is another process, with its directory.
type child struct {
	cmd *exec.Cmd
	dir string
}

// startChild runs another process that makes a directory in temp.
func startChild(t *testing.T, temp, role string) child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childEnv+"="+role, "TMPDIR="+temp)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil { // never closed, so a waiting child waits for its death
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	dir, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("read the path of the child's directory: %v", err)
	}
	return child{cmd: cmd, dir: strings.TrimSpace(dir)}
}

// end waits for the end of a child, which it kills first when kill is set.
func (c child) end(t *testing.T, kill bool) {
	t.Helper()
	if kill {
		if err := c.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.cmd.Wait() // It was killed, which Wait reports as an error.
		return
	}
	if err := c.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func TestDirOfADeadProcessIsRemovedByTheNext(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		role string
		kill bool
	}{
		"killed":                         {role: childWaits, kill: true},
		"ended without removing its dir": {role: childEnds},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			temp := t.TempDir()
			dead := startChild(t, temp, tc.role)
			dead.end(t, tc.kill)
			if !exists(t, dead.dir) {
				t.Fatal("the dead process left no directory, so nothing is shown")
			}
			startChild(t, temp, childEnds).end(t, false)
			if exists(t, dead.dir) {
				t.Errorf("%s is still there after another process started", dead.dir)
			}
		})
	}
}

func TestDirOfALivingProcessIsKept(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	living := startChild(t, temp, childWaits)
	startChild(t, temp, childEnds).end(t, false)
	if !exists(t, filepath.Join(living.dir, "file")) {
		t.Errorf("another process removed %s while its owner lived", living.dir)
	}
	living.end(t, true)
}

func TestDirectoriesOfOthersAreKept(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	others := []string{filepath.Join(temp, "somebody-else"), elsewhere}
	for _, path := range others {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(elsewhere, filepath.Join(temp, "pacertest-link")); err != nil {
		t.Fatal(err)
	}
	startChild(t, temp, childEnds).end(t, false)
	for _, path := range others {
		if !exists(t, path) {
			t.Errorf("%s is gone, which no test made", path)
		}
	}
}

func TestRemoveLeavesNothing(t *testing.T) {
	t.Parallel()
	dir, err := processtest.NewDir("removed")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir.Path, "file"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := dir.Remove(); err != nil {
		t.Fatal(err)
	}
	if exists(t, dir.Path) {
		t.Errorf("%s is still there", dir.Path)
	}
}

// Many processes start at once, each of which looks for abandoned directories while others make theirs.
func TestProcessesThatStartTogetherKeepTheirDirs(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	var all []child
	for range 12 {
		all = append(all, startChild(t, temp, childWaits))
	}
	for _, c := range all {
		if !exists(t, filepath.Join(c.dir, "file")) {
			t.Errorf("%s was removed while its process lived", c.dir)
		}
		c.end(t, true)
	}
}
