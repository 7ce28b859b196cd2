package deploy_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// TestWhatIsSupportedIsTested compares the table of docs/operate.md with what the workflow runs the tests on, and with
// the version of Go that the module asks for.
func TestWhatIsSupportedIsTested(t *testing.T) {
	t.Parallel()
	tested, promised := testedVersions(t), promisedVersions(t)
	for _, server := range []string{"Redis", "Valkey", "Postgres", "Go, to build it"} {
		if len(promised[server]) == 0 || !slices.Equal(tested[server], promised[server]) {
			t.Errorf("%s: operate.md promises %q, the workflow tests %q", server, promised[server], tested[server])
		}
	}
	oldest := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(readFile(t, "go.mod"))
	if oldest == nil || promised["Go, to build it"][0] != oldest[1] {
		t.Errorf("go.mod asks for Go %q, operate.md promises %q", oldest, promised["Go, to build it"])
	}
}

// testedVersions reads the workflow's matrices.
func testedVersions(t *testing.T) map[string][]string {
	t.Helper()
	var workflow struct {
		Jobs map[string]struct {
			Strategy struct {
				Matrix struct {
					Image []string `yaml:"image"`
					Go    []string `yaml:"go"`
				} `yaml:"matrix"`
			} `yaml:"strategy"`
		} `yaml:"jobs"`
	}
	if err := yaml.Unmarshal([]byte(readFile(t, ".github/workflows/supported.yml")), &workflow); err != nil {
		t.Fatal(err)
	}
	servers := map[string]string{"redis": "Redis", "valkey/valkey": "Valkey", "postgres": "Postgres"}
	tested := map[string][]string{"Go, to build it": workflow.Jobs["go"].Strategy.Matrix.Go}
	for _, image := range workflow.Jobs["servers"].Strategy.Matrix.Image {
		name, version, _ := strings.Cut(image, ":")
		tested[servers[name]] = append(tested[servers[name]], version)
	}
	return tested
}

// promisedVersions reads the table.
func promisedVersions(t *testing.T) map[string][]string {
	t.Helper()
	_, table, found := strings.Cut(readFile(t, "docs/operate.md"), "\n| | versions |\n|---|---|\n")
	if !found {
		t.Fatal("docs/operate.md has no table of versions")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	promised := map[string][]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 2 {
			t.Fatalf("docs/operate.md: %q is no row of the table of versions", line)
		}
		promised[cells[0]] = strings.Split(cells[1], ", ")
	}
	return promised
}
