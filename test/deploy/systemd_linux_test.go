package deploy_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mostExposed is the most that systemd's own scale from 0 (safe) to 10 may say of a unit.
const mostExposed = 3.0

// A unit may do little more than it has to.
func TestSystemdUnitsAreConfined(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Fatal("systemd-analyze is not installed: run make install-servers")
	}
	for _, name := range []string{"pacer.service", "pacer-migrate.service"} {
		out, err := exec.CommandContext(t.Context(), program, "security", "--offline=true",
			filepath.Join("..", "..", "deploy", "systemd", name)).CombinedOutput()
		found := regexp.MustCompile(`exposure level for \S+: ([0-9.]+)`).FindSubmatch(out)
		if err != nil || found == nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		exposed, err := strconv.ParseFloat(string(found[1]), 64)
		if err != nil || exposed >= mostExposed {
			t.Errorf("%s: exposed %s of 10, want less than %v\n%s", name, found[1], mostExposed, out)
		}
	}
}

// The units for systemd run commands that there are, and give a stopping process time to drain.
func TestSystemdUnits(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"pacer.service": {
			"ExecStart=/usr/local/bin/dispatcher serve", "ExecReload=/bin/kill -HUP $MAINPID",
			"TimeoutStopSec=40", "User=pacer", "Restart=on-failure",
		},
		"pacer-migrate.service": {
			"ExecStart=/usr/local/bin/dispatcher migrate up", "Type=oneshot",
			"Before=pacer.service", "User=pacer",
		},
	} {
		unit := readFile(t, "deploy/systemd/"+name)
		section := ""
		for line := range strings.Lines(unit) {
			line = strings.TrimSpace(line)
			switch {
			case line == "" || strings.HasPrefix(line, "#"):
			case strings.HasPrefix(line, "["):
				section = line
				if !slices.Contains([]string{"[Unit]", "[Service]", "[Install]"}, section) {
					t.Errorf("%s has a section %s", name, section)
				}
			case section == "" || !strings.Contains(line, "="):
				t.Errorf("%s: %q belongs to nothing", name, line)
			}
		}
		for _, line := range want {
			if !strings.Contains(unit, "\n"+line+"\n") {
				t.Errorf("%s does not say %s", name, line)
			}
		}
	}
}
