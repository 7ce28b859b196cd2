package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// TestReleaseIsOfWhatIsThere looks at what GoReleaser can't know: the linker says nothing of a variable that is not
// there, and a snapshot is made only where GoReleaser is.
func TestReleaseIsOfWhatIsThere(t *testing.T) {
	t.Parallel()
	var release struct {
		Builds []struct {
			Main    string   `yaml:"main"`
			Binary  string   `yaml:"binary"`
			Flags   []string `yaml:"flags"`
			LDFlags []string `yaml:"ldflags"`
		} `yaml:"builds"`
		Archives []struct {
			Files []struct {
				Source string `yaml:"src"`
			} `yaml:"files"`
		} `yaml:"archives"`
	}
	if err := yaml.Unmarshal([]byte(readFile(t, ".goreleaser.yaml")), &release); err != nil {
		t.Fatal(err)
	}
	var programs, documents []string
	variable := regexp.MustCompile(`-X github\.com/pacer-notify/pacer/internal/version\.(\w+)=`)
	for _, b := range release.Builds {
		programs = append(programs, b.Binary)
		if b.Main != "./cmd/"+b.Binary || !slices.Contains(b.Flags, "-trimpath") {
			t.Errorf("%s is built from %s with %q", b.Binary, b.Main, b.Flags)
		}
		set := variable.FindAllStringSubmatch(strings.Join(b.LDFlags, " "), -1)
		if len(set) != 2 {
			t.Errorf("%s: the linker sets %q, want version and commit", b.Binary, set)
		}
		for _, s := range set {
			if !strings.Contains(readFile(t, "internal/version/version.go"), "\t"+s[1]+" ") {
				t.Errorf("%s: package version has no %s", b.Binary, s[1])
			}
		}
	}
	for _, file := range release.Archives[0].Files {
		documents = append(documents, file.Source)
		if _, err := os.Stat(filepath.Join("..", "..", file.Source)); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(programs, []string{"dispatcher", "enqueue"}) || !slices.Contains(documents, "LICENSE") {
		t.Errorf("a release holds %q and %q", programs, documents)
	}
}

// TestOneVersionOfGoReleaser compares the places that name it.
func TestOneVersionOfGoReleaser(t *testing.T) {
	t.Parallel()
	named := map[string]bool{}
	for file, expression := range map[string]string{
		"Makefile":                      `goreleaser/v2@(v\S+)\)`,
		".github/workflows/ci.yml":      `(?s)goreleaser-action@.*?version: (v\S+)`,
		".github/workflows/release.yml": `(?s)goreleaser-action@.*?version: (v\S+)`,
	} {
		found := regexp.MustCompile(expression).FindStringSubmatch(readFile(t, file))
		if found == nil {
			t.Fatalf("%s names no version of GoReleaser", file)
		}
		named[found[1]] = true
	}
	if len(named) != 1 {
		t.Errorf("several versions of GoReleaser: %v", named)
	}
}
