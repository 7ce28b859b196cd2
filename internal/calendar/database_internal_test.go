package calendar

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// Go's own script says which version of the database a release has. Another version needs another embeddedVersion and
// embeddedIn.
func TestTheEmbeddedVersionIsThatOfTheToolchain(t *testing.T) {
	t.Parallel()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "update.bash"))
	if err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile(`(?m)^DATA=(\S+)$`).FindSubmatch(script)
	if said == nil || string(said[1]) != embeddedVersion {
		t.Errorf("%s has version %q of the time zones, embeddedVersion and embeddedIn say %s of %s", runtime.Version(), said,
			embeddedVersion, embeddedIn)
	}
}

func TestDatabaseSaysWhereZonesComeFrom(t *testing.T) {
	t.Parallel()
	folder := func(t *testing.T, files map[string]string) string {
		t.Helper()
		folder := t.TempDir()
		for name, text := range files {
			path := filepath.Join(folder, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return folder
	}
	zones := map[string]string{"Europe/Vienna": "TZif2"}
	bare := folder(t, zones)
	debian := folder(t, map[string]string{"Europe/Vienna": "TZif2", "tzdata.zi": "# version 2026a\n# rest\n"})
	bsd := folder(t, map[string]string{"Europe/Vienna": "TZif2", "+VERSION": "2026b\n"})
	archive := filepath.Join(folder(t, map[string]string{"zoneinfo.zip": "PK"}), "zoneinfo.zip")
	for name, c := range map[string]struct {
		named   string
		folders []string
		release string
		want    string
	}{
		"embedded":                 {release: embeddedIn, want: embeddedVersion + ", embedded"},
		"embedded, by another Go":  {release: "go1.99", want: "of go1.99, embedded"},
		"Debian's":                 {folders: []string{t.TempDir(), debian}, want: "2026a of this host, in " + debian},
		"FreeBSD's":                {folders: []string{bsd, debian}, want: "2026b of this host, in " + bsd},
		"one that says nothing":    {folders: []string{bare}, want: "of unknown version of this host, in " + bare},
		"ZONEINFO":                 {named: debian, folders: []string{bsd}, want: "2026a in ZONEINFO " + debian},
		"ZONEINFO, an archive":     {named: archive, want: "of unknown version in ZONEINFO " + archive},
		"ZONEINFO that is nowhere": {named: "/nowhere", folders: []string{bsd}, want: "2026b of this host, in " + bsd},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := database(c.named, c.folders, c.release); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
