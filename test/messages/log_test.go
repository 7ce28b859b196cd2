package messages_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/test/transcript"
)

// levels are the methods of a logger, and where their message stands.
var levels = map[string]int{
	"Debug": 0, "Info": 0, "Warn": 0, "Error": 0,
	"DebugContext": 1, "InfoContext": 1, "WarnContext": 1, "ErrorContext": 1,
}

// log.txt lists every message that the source logs, with its keys.
func TestLogMessages(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../..")
	var messages []string
	for _, room := range []string{"cmd", "internal", "client"} {
		if err := fs.WalkDir(root, room, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.Contains(path, "test/") ||
				strings.HasSuffix(path, "_test.go") {
				return err
			}
			messages = append(messages, logged(t, root, path)...)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(messages)
	transcript.Equal(t, "testdata/log.txt", strings.Join(slices.Compact(messages), "\n")+"\n")
}

// logged are the messages in a file.
func logged(t *testing.T, root fs.FS, path string) (messages []string) {
	t.Helper()
	text, err := fs.ReadFile(root, path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(node ast.Node) bool {
		call, isCall := node.(*ast.CallExpr)
		if !isCall {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		at, ok := levels[method.Sel.Name]
		if !ok || len(call.Args) <= at {
			return true
		}
		if message := constant(call.Args[at]); message != "" {
			level := strings.ToUpper(strings.TrimSuffix(method.Sel.Name, "Context"))
			messages = append(messages, level+" "+message+keys(call.Args[at+1:]))
		}
		return true
	})
	return messages
}

// keys are those of the arguments behind a message, in pairs.
func keys(arguments []ast.Expr) (keys string) {
	for i := 0; i < len(arguments); i += 2 {
		if key := constant(arguments[i]); key != "" {
			keys += " " + key + "="
		}
	}
	return keys
}

// constant is the text of literals, and empty for anything else.
func constant(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(of.Value) // a number is no text
		return text
	case *ast.BinaryExpr:
		return constant(of.X) + constant(of.Y)
	}
	return ""
}
