package processtest

import (
	"fmt"
	"os"
)

// ReplaceFile gives a file that a running process watches another text, in one step. A test that writes in place shows
// the process an empty file in between, and on a busy machine the process reads it.
func ReplaceFile(path, text string) error {
	next := path + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the next version of %s: %w", path, err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return nil
}
