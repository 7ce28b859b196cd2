//go:build faults

package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// program is the built dispatcher, whose protections can be switched off. programs is the folder that it lies in.
var program, programs string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "pacer-faults")
	if err == nil {
		programs, program = dir, filepath.Join(dir, "dispatcher")
		err = build(program, "../..")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the dispatcher:", err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir) // a temporary folder
	os.Exit(code)
}

// build builds the dispatcher of a checkout, with further arguments of go build.
func build(path, checkout string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "go", append(append([]string{"build", "-tags", "faults", "-o", path}, args...), "./cmd/dispatcher")...)
	command.Dir, command.Stderr = checkout, os.Stderr
	return command.Run()
}

// rewrite is a change to the program's source.
type rewrite struct{ file, says, instead string }

// rewritten builds the program with a change to its source; once for each change.
func (d *deployment) rewritten(r *rewrite) string {
	path := filepath.Join(programs, "dispatcher-without-"+strings.TrimSuffix(filepath.Base(r.file), ".go"))
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if err := overlaid(path, filepath.Join("../..", r.file), r.says, r.instead); err != nil {
		d.fail("build a program without %q: %v", r.says, err)
	}
	return path
}

// overlaid builds the program with one place of a source file replaced. The file itself stays as it is.
func overlaid(path, file, says, instead string) error {
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if strings.Count(string(text), says) != 1 {
		return fmt.Errorf("%s does not say %q once", file, says)
	}
	changed := path + ".go"
	if err := os.WriteFile(changed, []byte(strings.Replace(string(text), says, instead, 1)), 0o600); err != nil {
		return err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".json", overlay, 0o600); err != nil {
		return err
	}
	return build(path, "../..", "-overlay", path+".json")
}

// short tells whether a tenth of the load is enough.
func short() bool { return os.Getenv("FAULTS") == "short" }

// red tells whether every scenario runs without its protection, and must fail.
func red() bool { return os.Getenv("FAULTS_RED") != "" }

// scaled is a number of users: that of a whole run, or a tenth of it.
func scaled(users int) int {
	if short() {
		return max(users/10, 20)
	}
	return users
}
