package faults_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A rewrite that replaces nothing switches no protection off, and its scenario says so only after it has built the
// program. So each is compared with the source here, without the tag of the others.
func TestEachRewriteReplacesSomething(t *testing.T) {
	t.Parallel()
	files, _ := filepath.Glob("*_test.go") // the pattern is one
	found := 0
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			source, says := textOf(literal, "file"), textOf(literal, "says")
			if source == "" || says == "" {
				return true // no rewrite, or one that adds a file
			}
			found++
			text, err := os.ReadFile(filepath.Join("../..", source))
			if n := strings.Count(string(text), says); n != 1 {
				t.Errorf("%s: %s says %q %d times, want once; %v", file, source, says, n, err)
			}
			return true
		})
	}
	if found < 10 {
		t.Errorf("found %d rewrites only", found)
	}
}

// textOf is the text that a literal gives a field; empty when it is no plain text.
func textOf(literal *ast.CompositeLit, field string) string {
	for _, element := range literal.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		value, plain := pair.Value.(*ast.BasicLit)
		if name, ok := pair.Key.(*ast.Ident); ok && name.Name == field && plain {
			text, _ := strconv.Unquote(value.Value)
			return text
		}
	}
	return ""
}
