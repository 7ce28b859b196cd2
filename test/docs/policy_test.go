package docs_test

import (
	"testing"

	"github.com/pacer-notify/pacer/internal/policy"
)

// TestPolicyExamplesAreValid reads each policy that the reference shows.
func TestPolicyExamplesAreValid(t *testing.T) {
	t.Parallel()
	examples := fences(readFile(t, "docs/policy.md"), "yaml")
	if len(examples) < 5 {
		t.Errorf("docs/policy.md shows %d policies only", len(examples))
	}
	for _, example := range examples {
		if _, err := policy.Parse("docs/policy.md", []byte(example)); err != nil {
			t.Errorf("%v\n%s", err, example)
		}
	}
}
