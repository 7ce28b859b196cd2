package policy_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/policy"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestFaultyFiles compares the errors that operators read when their policy file has faults.
func TestFaultyFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/faulty/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no faulty files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p, err := policy.Parse(filepath.Base(file), data)
			if err == nil {
				t.Fatalf("accepted as %+v", p)
			}
			got := err.Error() + "\n"
			golden := strings.TrimSuffix(file, ".yaml") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("faults differ (-want +got):\n%s", diff)
			}
		})
	}
}
