package processtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"go.uber.org/goleak"
)

// commands is where the programs of this module lie.
const commands = "github.com/pacer-notify/pacer/cmd/"

// Built are programs that were built for the tests of a package. It is also their run: the programs are gone after it.
type Built struct {
	m   goleak.TestingM
	dir *Dir
}

// Build builds programs of cmd for a package's tests, for its TestMain.
func Build(m goleak.TestingM, names ...string) *Built {
	b, err := build(m, names)
	if err != nil {
		panic(err) // no test is there that could be failed
	}
	return b
}

func build(m goleak.TestingM, names []string) (*Built, error) {
	dir, err := NewDir("programs")
	if err != nil {
		return nil, err
	}
	// Without what only a debugger reads, linking takes two thirds of the time.
	args := []string{"build", "-ldflags=-w", "-o", dir.Path + string(filepath.Separator)}
	for _, name := range names {
		args = append(args, commands+name)
	}
	command := exec.CommandContext(context.Background(), "go", args...)
	command.Env = append(os.Environ(), "CGO_ENABLED=0") // as make build does
	command.Stderr = os.Stderr
	if err := command.Run(); err != nil {
		return nil, errors.Join(fmt.Errorf("build %v: %w", names, err), dir.Remove())
	}
	return &Built{m: m, dir: dir}, nil
}

// Path is a program's.
func (b *Built) Path(name string) string { return filepath.Join(b.dir.Path, name) }

// Run implements [goleak.TestingM].
func (b *Built) Run() int {
	code := b.m.Run()
	if err := b.dir.Remove(); err != nil {
		fmt.Fprintln(os.Stderr, err) // no test is left that could be failed
		return max(code, 1)
	}
	return code
}
