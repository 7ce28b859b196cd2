package redistest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/testproc"
)

// The script that make test runs first, on machines that are made of nothing but the programs of the case.
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
		{"Present", map[string]string{"id": root, "redis-server": nothing, "apt-get": works}, "", ""},
		{"RootApt", map[string]string{"id": root, "apt-get": works}, "apt-get", ""},
		{"RootDnf", map[string]string{"id": root, "dnf": works}, "dnf", ""},
		{"RootApk", map[string]string{"id": root, "apk": works}, "apk", ""},
		{"SudoApt", map[string]string{"id": user, "sudo": sudo, "apt-get": works}, "apt-get", ""},
		{"UserBrew", map[string]string{"id": user, "brew": works}, "brew", ""},
		{"BrewIsNotForRoot", map[string]string{"id": root, "brew": works}, "", "no apt-get, dnf, apk or brew"},
		{"UserWithoutSudo", map[string]string{"id": user, "apt-get": works}, "", "neither root nor sudo without a password"},
		{"SudoWantsAPassword", map[string]string{"id": user, "sudo": fails, "apt-get": works}, "", "neither root nor sudo"},
		{"NoManager", map[string]string{"id": root}, "", "no apt-get, dnf, apk or brew"},
		{"ManagerFails", map[string]string{"id": root, "dnf": fails}, "", "'dnf install -y redis' failed"},
		{"ManagerInstallsElsewhere", map[string]string{"id": root, "apk": nothing}, "", "still not on PATH"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := machine(t, tt.programs)
			out, err := needRedis(t, dir)
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
		if err := testproc.WriteProgram(filepath.Join(dir, name), "#!/bin/sh\n"+text+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// needRedis runs the script where path is all of PATH and returns what it prints.
func needRedis(t *testing.T, path string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", filepath.Join("..", "..", "scripts", "need.sh"), "redis")
	cmd.Env = []string{"PATH=" + path}
	out, err := cmd.CombinedOutput()
	return string(out), err
}
