package policy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/test/transcript"
)

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
			transcript.Equal(t, golden, got)
		})
	}
}
