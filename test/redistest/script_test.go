package redistest_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/processtest"
)

// The script that make install-servers runs, on machines that are made of nothing but the programs of the case.
func TestNeedRedisScript(t *testing.T) {
	t.Parallel()
	const (
		root, user = "echo 0", "echo 1000"
		works      = `echo ran >"$0".ran; : >"${0%/*}/redis-server"; chmod +x "${0%/*}/redis-server"`
		fails      = "exit 1"
		nothing    = ":"
		sudo       = `[ "$1" != -n ] || shift; exec "$@"`
	)
	tests := []struct {
		name     string
		programs map[string]string // name → shell text
		ran      string            // the package manager that must have run
		message  string            // what it must say when it gives up; empty: it must not
	}{
		{name: "Present", programs: map[string]string{"id": root, "redis-server": nothing, "apt-get": works}},
		{name: "RootApt", programs: map[string]string{"id": root, "apt-get": works}, ran: "apt-get"},
		{name: "RootDnf", programs: map[string]string{"id": root, "dnf": works}, ran: "dnf"},
		{name: "RootApk", programs: map[string]string{"id": root, "apk": works}, ran: "apk"},
		{name: "SudoApt", programs: map[string]string{"id": user, "sudo": sudo, "apt-get": works}, ran: "apt-get"},
		{name: "UserBrew", programs: map[string]string{"id": user, "brew": works}, ran: "brew"},
		{
			name: "BrewIsNotForRoot", programs: map[string]string{"id": root, "brew": works},
			message: "no apt-get, dnf, apk or brew",
		},
		{
			name: "UserWithoutSudo", programs: map[string]string{"id": user, "apt-get": works},
			message: "neither root nor sudo without a password",
		},
		{
			name: "SudoWantsAPassword", programs: map[string]string{"id": user, "sudo": fails, "apt-get": works},
			message: "neither root nor sudo",
		},
		{name: "NoManager", programs: map[string]string{"id": root}, message: "no apt-get, dnf, apk or brew"},
		{
			name: "ManagerFails", programs: map[string]string{"id": root, "dnf": fails},
			message: "'dnf install -y redis' failed",
		},
		{
			name: "ManagerInstallsElsewhere", programs: map[string]string{"id": root, "apk": nothing},
			message: "still not on PATH",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := machine(t, tt.programs)
			out, err := need(t, dir, "redis")
			if (err != nil) != (tt.message != "") || !strings.Contains(out, tt.message) {
				t.Errorf("error %v, output %q; want it to say %q", err, out, tt.message)
			}
			if err != nil && !strings.Contains(out, "apt-get install redis-server") {
				t.Errorf("output %q does not say what to install", out)
			}
			for _, manager := range []string{"apt-get", "dnf", "apk", "brew"} {
				_, err := os.Stat(filepath.Join(dir, manager+".ran"))
				if ran := err == nil; ran != (manager == tt.ran) {
					t.Errorf("%s ran: %t", manager, ran)
				}
			}
		})
	}
}

// machine makes a directory with the programs, and with those that they and the script call.
func machine(t *testing.T, programs map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"chmod", "env", "true"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range programs {
		if err := processtest.WriteProgram(filepath.Join(dir, name), "#!/bin/sh\n"+text+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// need runs the script where path is all of PATH and returns what it prints.
func need(t *testing.T, path string, args ...string) (string, error) {
	t.Helper()
	script := filepath.Join("..", "..", "scripts", "need.sh")
	cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{script}, args...)...)
	cmd.Env = []string{"PATH=" + path}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// make test only looks: it must not change a machine, though it could.
func TestCheckingInstallsNothing(t *testing.T) {
	t.Parallel()
	const couldInstall = `echo ran >"$0".ran`
	for name, programs := range map[string]map[string]string{
		"missing": {"id": "echo 0", "apt-get": couldInstall, "brew": couldInstall},
		"there":   {"id": "echo 0", "apt-get": couldInstall, "redis-server": ":"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := machine(t, programs)
			out, err := need(t, dir, "--check", "redis")
			if found := err == nil; found != (name == "there") {
				t.Errorf("redis-server is %s, and the check says %v", name, err)
			}
			if err != nil && !strings.Contains(out,
				"run make install-servers, or for example 'apt-get install redis-server'") {
				t.Errorf("output %q does not say what to do", out)
			}
			if ran, _ := filepath.Glob(filepath.Join(dir, "*.ran")); len(ran) != 0 {
				t.Errorf("%q ran", ran)
			}
		})
	}
}

func TestCheckOfNodePackages(t *testing.T) {
	t.Parallel()
	const lock, installed = "package-lock.json", "node_modules/.package-lock.json"
	past := time.Now().Add(-time.Hour)
	tests := []struct {
		name  string
		files map[string]time.Time // name → when it was written
		found bool
	}{
		{
			name:  "installed",
			files: map[string]time.Time{"package.json": past, lock: past, installed: past.Add(time.Minute)},
			found: true,
		},
		{name: "never installed", files: map[string]time.Time{"package.json": past, lock: past}},
		{
			name:  "changed since",
			files: map[string]time.Time{"package.json": past, lock: past.Add(time.Minute), installed: past},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, when := range tt.files {
				path := filepath.Join(dir, filepath.FromSlash(name))
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600),
					os.Chtimes(path, when, when)); err != nil {
					t.Fatal(err)
				}
			}
			out, err := need(t, "/nowhere", "--check-package", dir)
			if (err == nil) != tt.found || err != nil && !strings.Contains(out, "run make install-servers") {
				t.Errorf("error %v, output %q; want found %t", err, out, tt.found)
			}
		})
	}
}
