package deploy_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// mostExposed is the most that systemd's own scale from 0 (safe) to 10 may say of a unit.
const mostExposed = 3.0

// systemd reads the units, finds them confined, and gives a stopping process time to drain.
func TestSystemdUnits(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Fatal("systemd-analyze is not installed: run make install-servers")
	}
	for name, want := range map[string]string{
		"pacer.service":         "\nTimeoutStopSec=40\n",
		"pacer-migrate.service": "\nExecStart=/usr/local/bin/dispatcher migrate up\n",
	} {
		path := filepath.Join("..", "..", "deploy", "systemd", name)
		out, err := exec.CommandContext(t.Context(), program, "security", "--offline=true", path).CombinedOutput()
		found := regexp.MustCompile(`exposure level for \S+: ([0-9.]+)`).FindSubmatch(out)
		if err != nil || found == nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		if exposed, err := strconv.ParseFloat(string(found[1]), 64); err != nil || exposed >= mostExposed {
			t.Errorf("%s: exposed %s of 10, want less than %v\n%s", name, found[1], mostExposed, out)
		}
		if !strings.Contains(readFile(t, "deploy/systemd/"+name), want) {
			t.Errorf("%s lacks %q", name, want)
		}
	}
}
