package processtest

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"testing"
)

// passing are tests that pass.
type passing struct{ saw func() }

func (p passing) Run() int {
	p.saw()
	return 0
}

// Programs are there while the tests run, and gone after them.
func TestBuild(t *testing.T) {
	t.Parallel()
	var b *Built
	b, err := build(passing{saw: func() {
		if err := exec.CommandContext(t.Context(), b.Path("enqueue"), "--help").Run(); err != nil {
			t.Errorf("run the program: %v", err)
		}
	}}, []string{"enqueue"})
	if err != nil {
		t.Fatal(err)
	}
	if code := b.Run(); code != 0 {
		t.Errorf("code %d", code)
	}
	if _, err := os.Stat(b.Path("enqueue")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the tests: %v", err)
	}
}

// A program that does not exist is told by name.
func TestBuildFails(t *testing.T) {
	t.Parallel()
	if _, err := build(nil, []string{"nothing"}); err == nil {
		t.Error("nothing was built, and there is no error")
	}
}
