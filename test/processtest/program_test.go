package processtest_test

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/pacer-notify/pacer/test/processtest"
)

// Many goroutines write a program and run it at once. With a plain os.WriteFile some of them get "text file busy",
// because a process forked by another goroutine still has the file open for writing.
func TestWrittenProgramsRunAtOnce(t *testing.T) {
	t.Parallel()
	const writers, programs = 16, 25
	dir := t.TempDir()
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			for p := range programs {
				path := filepath.Join(dir, strconv.Itoa(w)+"-"+strconv.Itoa(p))
				if err := processtest.WriteProgram(path, "#!/bin/sh\nexit 0\n"); err != nil {
					t.Error(err)
					return
				}
				if err := exec.CommandContext(t.Context(), path).Run(); err != nil {
					t.Errorf("run a program that was just written: %v", err)
				}
			}
		})
	}
	running.Wait()
}
