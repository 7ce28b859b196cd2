//go:build faults

package faults_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// short tells whether a tenth of the load is enough.
func short() bool { return os.Getenv("FAULTS") == "short" }

// red tells whether every scenario runs without its protection, and must fail.
func red() bool { return os.Getenv("FAULTS_RED") != "" }

// scaled is a number of users: that of a whole run, or a tenth of it.
func scaled(users int) int {
	if short() {
		return max(users/10, 10)
	}
	return users
}
