// Command pictures makes the pictures of README.md from real runs.
//
//	go run ./scripts/pictures demo        docs/img/demo.svg: what dispatcher demo prints, as an animation
//	go run ./scripts/pictures dashboard   docs/img/dashboard.png: the dashboard under load, in Chromium
//
// The second one starts redis-server and needs Chromium; make install-servers installs both.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// errUsage says how the command is called.
var errUsage = errors.New("usage: go run ./scripts/pictures demo|dashboard, in the top folder of the project")

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
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
	switch args[0] {
	case "demo":
		return drawDemo(ctx, program, filepath.Join("docs", "img", "demo.svg"))
	case "dashboard":
		return drawDashboard(ctx, program, folder, filepath.Join("docs", "img", "dashboard.png"))
	}
	return errUsage
}
