package deploy_test

import (
	"fmt"
	"go/build/constraint"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// unlinted are build tags that no run of the linter sets, with the reason of each.
var unlinted = map[string]string{
	"race": "go test -race sets it, and compiles the file that asks for it; that file holds one constant",
}

// TestLintSeesEveryFile fails when a file has a build constraint that no run of make lint meets: with all of the
// Makefile's tags for the module, or with none.
func TestLintSeesEveryFile(t *testing.T) {
	t.Parallel()
	for name, module := range map[string]struct{ folder, tags string }{
		"product":    {folder: ".", tags: "LINT_TAGS"},
		"benchmarks": {folder: "bench", tags: "BENCH_LINT_TAGS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			match := regexp.MustCompile(`(?m)^` + module.tags + ` := (\S+)$`).FindStringSubmatch(readFile(t,
				"Makefile"))
			if match == nil {
				t.Fatalf("Makefile has no %s", module.tags)
			}
			tags := strings.Split(match[1], ",")
			found := constraints(t, module.folder)
			if len(found) == 0 {
				t.Error("no file with a build constraint found: the test does not see what it is for")
			}
			for name, line := range found {
				expression, err := constraint.Parse(line)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				if !seenByLint(expression, tags) {
					t.Errorf("%s: make lint does not see it (%s); add its tag to %s", name, line, module.tags)
				}
			}
		})
	}
}

// seenByLint reports whether a run with the tags or a run without any compiles a file with the constraint, on some
// system.
func seenByLint(expression constraint.Expr, tags []string) bool {
	given := map[string]bool{}
	for _, tag := range tags {
		given[tag] = true
	}
	with := expression.Eval(func(tag string) bool { return given[tag] || platform(tag) || unlinted[tag] != "" })
	without := expression.Eval(platform)
	// What is for other systems is linted on those.
	elsewhere := expression.Eval(func(tag string) bool { return given[tag] })
	return with || without || elsewhere
}

// platform reports whether the tag is one of this system's.
func platform(tag string) bool {
	return tag == runtime.GOOS || tag == runtime.GOARCH || tag == "unix" || strings.HasPrefix(tag, "go1.")
}

// constraints returns the build constraint of each Go file that has one, of the module in a folder.
func constraints(t *testing.T, folder string) map[string]string {
	t.Helper()
	top := filepath.Join("..", "..", folder)
	line := regexp.MustCompile(`(?m)^//go:build .*$`)
	found := map[string]string{}
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != top && leftOut(path):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if head, _, _ := strings.Cut(string(text), "\npackage "); line.MatchString(head) {
			found[strings.TrimPrefix(path, top+string(filepath.Separator))] = line.FindString(head)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// leftOut reports whether a folder holds nothing that the linter is given: it belongs to Git, to npm or to another
// module.
func leftOut(path string) bool {
	name := filepath.Base(path)
	_, err := os.Stat(filepath.Join(path, "go.mod"))
	return name == ".git" || name == "node_modules" || name == "testdata" || err == nil
}

func TestFilesThatLintDoesNotSeeAreFound(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, line string
		seen       bool
	}{
		{name: "tag that is given", line: "//go:build faults", seen: true},
		{name: "both of two tags", line: "//go:build faults && soak", seen: true},
		{name: "without a tag", line: "//go:build !faults", seen: true},
		{name: "tag that is not given", line: "//go:build growth"},
		{name: "tag that is not given, with one that is", line: "//go:build faults && growth"},
		{name: "one tag without the other", line: "//go:build faults && !soak"},
		{name: "never", line: "//go:build ignore"},
		{name: "other systems", line: "//go:build !linux", seen: true},
		{name: "under the race detector", line: "//go:build race", seen: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			expression, err := constraint.Parse(tt.line)
			if err != nil {
				t.Fatal(err)
			}
			if seen := seenByLint(expression, []string{"faults", "soak"}); seen != tt.seen {
				t.Errorf("%s seen: %t, want %t", tt.line, seen, tt.seen)
			}
		})
	}
}

// TestLineLengthIsThatOfEditorconfig compares what editors are told with what make lint accepts.
func TestLineLengthIsThatOfEditorconfig(t *testing.T) {
	t.Parallel()
	var lint struct {
		Linters struct {
			Enable   []string `yaml:"enable"`
			Settings struct {
				LLL struct {
					Length int `yaml:"line-length"`
					Tab    int `yaml:"tab-width"`
				} `yaml:"lll"`
			} `yaml:"settings"`
		} `yaml:"linters"`
	}
	if err := yaml.Unmarshal([]byte(readFile(t, ".golangci.yml")), &lint); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(lint.Linters.Enable, "lll") {
		t.Error("make lint does not look at the length of lines")
	}
	editors := readFile(t, ".editorconfig")
	all, _, _ := strings.Cut(editors, "\n[{*.go,")
	_, code, _ := strings.Cut(editors, "\n[{*.go,")
	code, _, _ = strings.Cut(code, "\n\n")
	length, tab := lint.Linters.Settings.LLL.Length, lint.Linters.Settings.LLL.Tab
	if want := fmt.Sprintf("\nmax_line_length = %d\n", length); !strings.Contains(all, want) {
		t.Errorf(".editorconfig does not say %q, which is what make lint accepts", want)
	}
	if want := fmt.Sprintf("\nindent_size = %d", tab); !strings.Contains(code, want) {
		t.Errorf(".editorconfig does not say %q for Go, which is how make lint counts", want)
	}
}
