package deploy_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// pinned is an action at one commit, with the version that the commit has for those who read it, and for the bot that
// brings newer ones. A tag in its place is whatever the action's owner, or whoever takes over their account, makes of
// it tomorrow.
var pinned = regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)

// uses is a line of a workflow that runs something of somebody else.
var uses = regexp.MustCompile(`(?m)^\s*(?:-\s+)?["']?uses["']?\s*:\s*(.*?)\s*$`)

func TestWorkflowsPinTheirActions(t *testing.T) {
	t.Parallel()
	files, actions := workflows(t), 0
	for name, text := range files {
		actions += len(uses.FindAllString(text, -1))
		for _, fault := range pinFaults(text) {
			t.Errorf("%s: %s", name, fault)
		}
	}
	if len(files) == 0 || actions == 0 {
		t.Errorf("%d workflows with %d actions looked at: the test does not see what it is for", len(files), actions)
	}
}

// workflows returns the text of each workflow, and of each action of the project's own, by its name.
func workflows(t *testing.T) map[string]string {
	t.Helper()
	top := filepath.Join("..", "..")
	files := map[string]string{}
	for _, pattern := range []string{
		"workflows/*.yml", "workflows/*.yaml", "actions/*/action.yml",
		"actions/*/action.yaml",
	} {
		names, err := filepath.Glob(filepath.Join(top, ".github", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			files[strings.TrimPrefix(name, top+string(filepath.Separator))] = string(text)
		}
	}
	return files
}

// pinFaults returns the actions of a workflow that are not pinned, one sentence each.
func pinFaults(text string) []string {
	var faults []string
	for _, match := range uses.FindAllStringSubmatch(text, -1) {
		if action := match[1]; !strings.HasPrefix(action, "./") && !pinned.MatchString(action) {
			faults = append(faults, fmt.Sprintf("uses %q, want OWNER/NAME@COMMIT # vX.Y.Z with all 40 digits of the commit", action))
		}
	}
	return faults
}

// A workflow that does not say what its token may do gets whatever the repository's settings say, which may be all.
func TestWorkflowsMayReadOnly(t *testing.T) {
	t.Parallel()
	for name, text := range workflows(t) {
		if !strings.Contains(name, "workflows") {
			continue
		}
		var workflow struct {
			Permissions map[string]string         `yaml:"permissions"`
			Jobs        map[string]map[string]any `yaml:"jobs"`
		}
		if err := yaml.Unmarshal([]byte(text), &workflow); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if want := map[string]string{"contents": "read"}; !maps.Equal(workflow.Permissions, want) {
			t.Errorf("%s: its jobs may %v, want %v; a job that writes says so itself", name, workflow.Permissions, want)
		}
		for job, settings := range workflow.Jobs {
			if settings["timeout-minutes"] == nil {
				t.Errorf("%s: job %s may hang for the six hours of the forge", name, job)
			}
		}
	}
}

func TestUnpinnedActionsAreFound(t *testing.T) {
	t.Parallel()
	const commit = "3d3c42e5aac5ba805825da76410c181273ba90b1"
	tests := []struct {
		name, text string
		fault      bool
	}{
		{name: "commit with version", text: "      - uses: actions/checkout@" + commit + " # v7.0.1"},
		{name: "action within a repository", text: "        uses: github/codeql-action/init@" + commit + " # v3.1.0"},
		{name: "action of the project's own", text: "      - uses: ./.github/actions/servers"},
		{name: "tag", text: "      - uses: actions/checkout@v7", fault: true},
		{name: "branch", text: "      - uses: actions/checkout@main", fault: true},
		{name: "short commit", text: "      - uses: actions/checkout@3d3c42e # v7.0.1", fault: true},
		{name: "commit without version", text: "      - uses: actions/checkout@" + commit, fault: true},
		{name: "version that moves", text: "      - uses: actions/checkout@" + commit + " # v7", fault: true},
		{name: "container", text: "      - uses: docker://alpine:3", fault: true},
		{name: "nothing", text: "      - uses: actions/checkout", fault: true},
		{name: "quoted", text: `      - "uses": "actions/checkout@v7"`, fault: true},
		{name: "workflow of others", text: "    uses: owner/name/.github/workflows/x.yml@v1", fault: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if faults := pinFaults(tt.text); (len(faults) != 0) != tt.fault {
				t.Errorf("faults of %q: %q, want some: %t", tt.text, faults, tt.fault)
			}
		})
	}
}
