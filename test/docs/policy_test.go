package docs_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/pacer-notify/pacer/internal/policy"
)

const policyPage = "docs/policy.md"

// TestPolicyReferenceShowsEveryKey wants each example to be a valid policy, and each key in one of them.
func TestPolicyReferenceShowsEveryKey(t *testing.T) {
	t.Parallel()
	var shown []string
	for i, example := range fences(readFile(t, policyPage), "yaml") {
		if _, err := policy.Parse(fmt.Sprintf("example %d", i+1), []byte(example)); err != nil {
			t.Errorf("%s: %v\n%s", policyPage, err, example)
		}
		var content any
		if err := yaml.Unmarshal([]byte(example), &content); err != nil {
			t.Fatal(err)
		}
		shown = append(shown, keysOf("", content)...)
	}
	for _, key := range knownKeys(t) {
		if !slices.Contains(shown, key) {
			t.Errorf("%s has no example with %s", policyPage, key)
		}
	}
}

// noKey is a key that no policy has. The parser refuses it with the keys that it knows in that place.
const noKey = "zz"

var knownHere = regexp.MustCompile(`(?m): (?:(\S+)\.)?` + noKey + `: unknown key; known here: (.*)$`)

// knownKeys asks the parser for the keys that it knows: at the top, and below each key, under a name or in a list.
func knownKeys(t *testing.T) []string {
	t.Helper()
	nobody := map[string]any{noKey: 1}
	var keys []string
	for next := below(t, nobody); len(next) > 0; next = next[1:] {
		key := next[0]
		keys = append(keys, key)
		for _, value := range []any{nobody, []any{nobody}, map[string]any{noKey: nobody}} {
			next = append(next, below(t, nest(key, value))...)
		}
	}
	slices.Sort(keys)
	return keys
}

// below returns the keys that the parser tells of when it reads a policy of this content.
func below(t *testing.T, content any) []string {
	t.Helper()
	text, err := json.Marshal(content) // JSON is YAML
	if err != nil {
		t.Fatal(err)
	}
	_, err = policy.Parse("", text)
	if err == nil {
		t.Fatalf("the parser takes %s", text)
	}
	var keys []string
	for _, found := range knownHere.FindAllStringSubmatch(err.Error(), -1) {
		prefix := ""
		if found[1] != "" {
			prefix = strings.NewReplacer("."+noKey, ".NAME", "[0]", "[]").Replace(found[1]) + "."
		}
		for key := range strings.SplitSeq(found[2], ", ") {
			keys = append(keys, prefix+key)
		}
	}
	return keys
}

// nest wraps a value into the mappings and lists of a key's path.
func nest(path string, value any) any {
	steps := strings.Split(path, ".")
	for _, step := range slices.Backward(steps) {
		name, isList := strings.CutSuffix(step, "[]")
		if isList {
			value = []any{value}
		}
		if name == "NAME" {
			name = noKey
		}
		value = map[string]any{name: value}
	}
	return value
}

// keysOf are the paths of all keys in a value, as the page writes them.
func keysOf(path string, value any) []string {
	var keys []string
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			if path == "categories." || path == "channels." || path == "windows." {
				name = "NAME"
			}
			keys = append(append(keys, path+name), keysOf(path+name+".", inner)...)
		}
	case []any:
		for _, inner := range value {
			keys = append(keys, keysOf(strings.TrimSuffix(path, ".")+"[].", inner)...)
		}
	}
	return keys
}
