package docs_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDemo runs the command that comes first for a new user, until it shows a delivery.
func TestDemo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	demo := exec.CommandContext(ctx, filepath.Join(programs, "dispatcher"), "demo", "--open=false")
	demo.Dir, demo.Env = t.TempDir(), cleanEnvironment()
	out, err := demo.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	dashboard, arrived := false, false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		dashboard = dashboard || strings.Contains(lines.Text(), "http://")
		if !arrived && strings.Contains(lines.Text(), "  arrive  ") {
			arrived = true
			_ = demo.Process.Signal(os.Interrupt) // fails when it is gone
		}
	}
	if err := demo.Wait(); err != nil || !arrived || !dashboard {
		t.Errorf("ended with %v; shown was a delivery: %t, the dashboard: %t", err, arrived, dashboard)
	}
}
