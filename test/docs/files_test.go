package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// top is the repository.
const top = "../.."

// readFile reads a file by its path in the repository.
func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// fences are the contents of a page's code blocks in a language.
func fences(page, language string) []string {
	var blocks []string
	for _, part := range strings.Split("\n"+page, "\n```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(part, "\n```")
		blocks = append(blocks, block+"\n")
	}
	return blocks
}

// pages are all Markdown files of the repository, by their paths.
func pages(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "node_modules", "bin", "dist"}, entry.Name()) {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".md") {
			name, err := filepath.Rel(top, path)
			names = append(names, name)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
