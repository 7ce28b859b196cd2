package deploy_test

import (
	"io/fs"
	"path/filepath"
	"testing"
)

// TestTheProjectHoldsNoSymbolicLink fails when somebody commits a link that works on one machine only: a node_modules
// that pointed at another checkout has been in the repository, and npm followed it.
func TestTheProjectHoldsNoSymbolicLink(t *testing.T) {
	t.Parallel()
	top := filepath.Join("..", "..")
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.Type()&fs.ModeSymlink != 0:
			t.Errorf("%s is a symbolic link", path)
		// What npm installs holds links.
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "node_modules"):
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
