package settings_test

import (
	"os"
	"path/filepath"
	"testing"
)

func TestEmptySettingsFileSetsNothing(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing": "", "a comment": "# nothing yet\n", "the start of a document": "---\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "settings.yaml")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if p, err := parse(t, nil, "--config", path); err != nil || p.Serve.Partitions != 16 {
				t.Errorf("%v, %s", err, p.Serve)
			}
		})
	}
}
