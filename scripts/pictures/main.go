// Command pictures makes the pictures of README.md from real runs.
//
//	go run ./scripts/pictures demo        docs/img/demo.svg: what dispatcher demo prints, as an animation
//	go run ./scripts/pictures dashboard   docs/img/dashboard.png: its dashboard, in Chromium
//
// The second one needs Chromium, which make install-servers installs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// errUsage says how the command is called.
var errUsage = errors.New("usage: go run ./scripts/pictures demo|dashboard, in the top folder of the project")

func run(ctx context.Context, args []string, to io.Writer) error {
	if len(args) != 1 {
		return errUsage
	}
	var name string
	var draw func(ctx context.Context, program string) ([]byte, error)
	switch args[0] {
	case "demo":
		name, draw = "demo.svg", drawDemo
	case "dashboard":
		name, draw = "dashboard.png", drawDashboard
	default:
		return errUsage
	}
	folder, err := os.MkdirTemp("", "pacer-pictures-")
	if err != nil {
		return fmt.Errorf("make a temporary folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }() // a temporary one
	program := filepath.Join(folder, "dispatcher")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/dispatcher") //nolint:gosec // a path of our own
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build the dispatcher: %w", err)
	}
	picture, err := draw(ctx, program)
	if err != nil {
		return err
	}
	name = filepath.Join("docs", "img", name)
	if err := os.WriteFile(name, picture, 0o644); err != nil { //nolint:gosec // a picture for everybody
		return fmt.Errorf("write the picture: %w", err)
	}
	fmt.Fprintln(to, name)
	return nil
}
