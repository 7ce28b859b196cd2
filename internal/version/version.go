// Package version reports which build is running.
//
// A build out of a Git checkout needs nothing for it: the Go command records the version and the commit. A build
// without one, as in the container image, sets both:
//
//	go build -ldflags "-X github.com/pacer-notify/pacer/internal/version.version=v1.2.3
//	  -X github.com/pacer-notify/pacer/internal/version.commit=0123456789ab"
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Set by the linker and by nothing else; empty means: ask the build information.
var (
	version string
	commit  string
)

// Unknown stands for what the build did not store.
const Unknown = "unknown"

// Info is what is known of a build. No field is empty.
type Info struct {
	Version   string // release, as in v1.2.3, or the pseudo-version of a commit
	Commit    string // revision in the version control system; ends in "-dirty" when the checkout had changes
	GoVersion string // release of Go that compiled it
}

// Current describes the running program.
func Current() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok { // a build without module support
		build = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return Of(build, version, commit)
}

// Of describes a build. A version or commit that is not empty goes before what the build recorded.
func Of(build *debug.BuildInfo, version, commit string) Info {
	info := Info{Version: Unknown, Commit: Unknown, GoVersion: build.GoVersion}
	// "(devel)" is the Go command's word for a main module of which it does not know the version.
	if v := build.Main.Version; v != "" && v != "(devel)" {
		info.Version = v
	}
	if revision := setting(build, "vcs.revision"); revision != "" {
		info.Commit = revision
		if setting(build, "vcs.modified") == "true" {
			info.Commit += "-dirty"
		}
	}
	if version != "" {
		info.Version = version
	}
	if commit != "" {
		info.Commit = commit
	}
	return info
}

// setting is one entry of the build settings, empty when it is not there.
func setting(build *debug.BuildInfo, key string) string {
	for _, s := range build.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// String is the line that the version command prints after the program's name.
func (i Info) String() string {
	return fmt.Sprintf("%s (commit %s, %s)", i.Version, i.Commit, i.GoVersion)
}
