// Package module finds the files of this module for the tests that need another package's: wherever the checkout lies,
// and also when the tests were built with -trimpath.
package module

import (
	"os"
	"path/filepath"
	"testing"
)

// Path is the path of a file of the module, given by its slash-separated path in the module. A test that runs outside
// the module fails.
func Path(tb testing.TB, name string) string {
	tb.Helper()
	dir, err := os.Getwd() // a test runs in the folder of its package
	if err != nil {
		tb.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, filepath.FromSlash(name))
		}
		if filepath.Dir(dir) == dir {
			tb.Fatal("no folder above the test has a go.mod")
		}
	}
}
