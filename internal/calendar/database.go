package calendar

import (
	"bufio"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// embeddedVersion is the version of the IANA database in package time/tzdata of the release embeddedIn of Go. The
// release says it in lib/time/update.bash. A test compares them.
const (
	embeddedVersion = "2025c"
	embeddedIn      = "go1.26.8"
)

// hostFolders are where Go looks for a host's zones on Unix, in this order.
var hostFolders = []string{
	"/usr/share/zoneinfo", "/usr/share/lib/zoneinfo", "/usr/lib/locale/TZ", "/etc/zoneinfo",
}

// Database says which version of the IANA database time zones come from: a host's goes before the one in this program.
func Database() string { return database(os.Getenv("ZONEINFO"), hostFolders, runtime.Version()) }

// database looks in the places in which package time does, in its order.
func database(named string, folders []string, release string) string {
	if named != "" {
		if version, found := versionIn(named); found {
			return version + " in ZONEINFO " + named
		}
	}
	for _, folder := range folders {
		if version, found := versionIn(folder); found {
			return version + " of this host, in " + folder
		}
	}
	if release == embeddedIn {
		return embeddedVersion + ", embedded"
	}
	return "of " + release + ", embedded"
}

// versionIn returns the version of the database in a folder, as far as it says it; false when there is none. A file is
// a database of Go's own form, which has no version.
func versionIn(place string) (version string, found bool) {
	const probe = "Europe/Vienna"
	unknown := "of unknown version"
	if info, err := os.Stat(place); err == nil && !info.IsDir() { //nolint:gosec // the operator names it
		return unknown, true
	}
	if _, err := os.Stat(filepath.Join(place, probe)); err != nil { //nolint:gosec // as above
		return "", false
	}
	for _, name := range []string{"+VERSION", "tzdata.zi"} {
		if line := firstLine(filepath.Join(place, name)); line != "" {
			return strings.TrimPrefix(line, "# version "), true
		}
	}
	return unknown, true
}

// firstLine is the first line of a file; "" when it has none.
func firstLine(path string) string {
	file, err := os.Open(path) //nolint:gosec // the operator names its folder
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }() // it was only read
	lines := bufio.NewScanner(file)
	lines.Scan()
	return lines.Text()
}
