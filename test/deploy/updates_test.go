package deploy_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// kindOf has the files that name what pacer uses in which version, with what the bot calls their kind.
var kindOf = map[string]string{
	"go.mod": "gomod", "package.json": "npm", "Dockerfile": "docker", "docker-compose.yml": "docker-compose",
}

// TestTheBotSeesEveryManifest fails when a module, a Node package or an image is added or moved and
// .github/dependabot.yml does not know: the bot says nothing about a folder that it is not told of.
func TestTheBotSeesEveryManifest(t *testing.T) {
	t.Parallel()
	var config struct {
		Updates []struct {
			Ecosystem   string   `yaml:"package-ecosystem"`
			Directory   string   `yaml:"directory"`
			Directories []string `yaml:"directories"`
			Schedule    struct {
				Interval string `yaml:"interval"`
			} `yaml:"schedule"`
			Groups map[string]any `yaml:"groups"`
		} `yaml:"updates"`
	}
	if err := yaml.Unmarshal([]byte(readFile(t, ".github/dependabot.yml")), &config); err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, update := range config.Updates {
		if update.Schedule.Interval != "weekly" || len(update.Groups) != 1 {
			t.Errorf("%s in %s%v: want one pull request a week", update.Ecosystem, update.Directory, update.Directories)
		}
		for _, folder := range append(update.Directories, update.Directory) {
			if folder != "" {
				told[update.Ecosystem+" "+folder] = true
			}
		}
	}
	there := manifestFolders(t)
	there["github-actions /"] = true // the bot finds the workflows by itself
	want, got := slices.Sorted(maps.Keys(there)), slices.Sorted(maps.Keys(told))
	if !slices.Equal(got, want) {
		t.Errorf("dependabot.yml tells of\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// manifestFolders returns the kind and folder of each manifest of the project, as "gomod /tools".
func manifestFolders(t *testing.T) map[string]bool {
	t.Helper()
	top := filepath.Join("..", "..")
	found := map[string]bool{}
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "node_modules"):
			return filepath.SkipDir
		case kindOf[entry.Name()] != "":
			folder, err := filepath.Rel(top, filepath.Dir(path))
			if err != nil {
				return err
			}
			found[kindOf[entry.Name()]+" "+filepath.ToSlash(filepath.Clean(string(os.PathSeparator)+folder))] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A form that the forge cannot read is not shown, and says so nowhere.
func TestIssueFormsCanBeRead(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob(filepath.Join("..", "..", ".github", "ISSUE_TEMPLATE", "*.yml"))
	if err != nil || len(names) == 0 {
		t.Fatalf("issue forms: %q, %v", names, err)
	}
	for _, name := range names {
		if filepath.Base(name) == "config.yml" {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var form struct {
			Name        string `yaml:"name"`
			Description string `yaml:"description"`
			Body        []struct {
				Type       string         `yaml:"type"`
				ID         string         `yaml:"id"`
				Attributes map[string]any `yaml:"attributes"`
			} `yaml:"body"`
		}
		if err := yaml.Unmarshal(text, &form); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if form.Name == "" || form.Description == "" || len(form.Body) == 0 {
			t.Errorf("%s: lacks a name, a description or fields", name)
		}
		for _, field := range form.Body {
			shown := field.Attributes["label"] != nil || field.Type == "markdown" && field.Attributes["value"] != nil
			if !shown || field.Type != "markdown" && field.ID == "" {
				t.Errorf("%s: field %+v lacks an id, a label or a text", name, field)
			}
		}
	}
}
