package version_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/version"
)

func ExampleInfo() {
	fmt.Println("pacer", version.Info{Version: "v1.2.3", Commit: "0123456789ab", GoVersion: "go1.26.8"})
	// Output: pacer v1.2.3 (commit 0123456789ab, go1.26.8)
}

func TestOf(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name            string
		build           debug.BuildInfo
		version, commit string
		want            version.Info
	}{
		{
			name:  "NothingRecorded",
			build: debug.BuildInfo{GoVersion: "go1.26"},
			want:  version.Info{Version: version.Unknown, Commit: version.Unknown, GoVersion: "go1.26"},
		},
		{
			name:  "DevelIsNoVersion",
			build: debug.BuildInfo{GoVersion: "go1.26", Main: debug.Module{Version: "(devel)"}},
			want:  version.Info{Version: version.Unknown, Commit: version.Unknown, GoVersion: "go1.26"},
		},
		{
			name:  "Checkout",
			build: checkout("false"),
			want:  version.Info{Version: "v1.0.0", Commit: "abc", GoVersion: "go1.26"},
		},
		{
			name:  "ChangedCheckout",
			build: checkout("true"),
			want:  version.Info{Version: "v1.0.0", Commit: "abc-dirty", GoVersion: "go1.26"},
		},
		{
			name:    "LinkerFlagsWin",
			build:   checkout("true"),
			version: "v2.0.0",
			commit:  "def",
			want:    version.Info{Version: "v2.0.0", Commit: "def", GoVersion: "go1.26"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, version.Of(&tt.build, tt.version, tt.commit)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// checkout is the build information of a program built in a Git checkout.
func checkout(modified string) debug.BuildInfo {
	return debug.BuildInfo{
		GoVersion: "go1.26",
		Main:      debug.Module{Version: "v1.0.0"},
		Settings:  []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: modified}},
	}
}

func TestCurrentNamesTheCompiler(t *testing.T) {
	t.Parallel()
	if got := version.Current().GoVersion; got != runtime.Version() {
		t.Errorf("Go version = %q, want %q", got, runtime.Version())
	}
}

// The linker ignores a variable that does not exist, so only a build shows whether the names in the build files are
// right.
func TestBuildFilesSetTheVersion(t *testing.T) {
	t.Parallel()
	flag := regexp.MustCompile(`-X (\S+)\.(version|commit)=`)
	for _, file := range []string{"Makefile", "Dockerfile"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("..", "..", file))
			if err != nil {
				t.Fatal(err)
			}
			var flags []string
			for _, m := range flag.FindAllStringSubmatch(string(text), -1) {
				flags = append(flags, "-X "+m[1]+"."+m[2]+"=my"+m[2])
			}
			if len(flags) != 2 {
				t.Fatalf("%d linker flags in %s, want one for the version and one for the commit", len(flags), file)
			}
			got := build(t, strings.Join(flags, " "))
			if want := "myversion (commit mycommit, " + runtime.Version() + ")"; got != want {
				t.Errorf("program says %q, want %q", got, want)
			}
		})
	}
}

// build compiles the program under testdata with the linker flags and returns what it prints.
func build(t *testing.T, ldflags string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "show")
	compile := exec.CommandContext(t.Context(), "go", "build", "-ldflags", ldflags, "-o", program, "./testdata/show")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), program).Output()
	if err != nil {
		t.Fatalf("run the program: %v", err)
	}
	return strings.TrimSpace(string(out))
}
