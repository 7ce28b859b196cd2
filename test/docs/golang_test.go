package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGoOfThePagesCompiles compiles the Go of README.md and of the page on transactions against this module's client,
// each block in a function of its own, with a context and a transaction at hand.
func TestGoOfThePagesCompiles(t *testing.T) {
	t.Parallel()
	snippets := fences(readFile(t, "README.md")+readFile(t, "docs/transactions.md"), "go")
	if len(snippets) < 2 {
		t.Fatalf("the pages have %d blocks of Go only", len(snippets))
	}
	var source strings.Builder
	source.WriteString("package readme\n\nimport (\n\"context\"\n\"os\"\n\n" +
		"\"github.com/pacer-notify/pacer/client\"\n)\n\nvar _ = os.Getenv\n")
	for i, snippet := range snippets {
		fmt.Fprintf(&source, "\nfunc _(ctx context.Context, tx client.Tx) (got []any) {\n%s", snippet)
		for line := range strings.Lines(snippet) {
			if names, _, found := strings.Cut(line, " := "); found { // what is not used does not compile
				fmt.Fprintf(&source, "got = append(got, %s) // of block %d\n", names, i+1)
			}
		}
		source.WriteString("return got\n}\n")
	}
	// An overlay puts the file into this module without writing it there.
	folder := t.TempDir()
	module, err := filepath.Abs(top)
	if err != nil {
		t.Fatal(err)
	}
	file, overlay := filepath.Join(folder, "readme.go"), filepath.Join(folder, "overlay.json")
	replaced, err := json.Marshal(map[string]any{
		"Replace": map[string]string{filepath.Join(module, "test/docs/readme/readme.go"): file},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{file: []byte(source.String()), overlay: replaced} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "./test/docs/readme")
	build.Dir = module
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("the Go of the pages does not compile: %v\n%s\n%s", err, out, source.String())
	}
}
