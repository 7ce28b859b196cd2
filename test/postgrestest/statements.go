package postgrestest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Statement is one that a package sends to Postgres.
type Statement struct {
	// Name of the constant that holds it, or else of the function that sends it.
	Name string
	SQL  string
}

// Statements reads every statement that the Go files below a directory send, out of their source: a new one can't be
// missed. One that is no constant fails the test, since nobody could tell its plan.
func Statements(tb testing.TB, dir string) []Statement {
	tb.Helper()
	s := &source{tb: tb, files: token.NewFileSet(), constants: map[string]ast.Expr{}, seen: map[string]bool{}}
	var parsed []*ast.File
	if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(s.files, path, nil, parser.SkipObjectResolution)
		if err == nil {
			parsed = append(parsed, file)
			s.readConstants(file)
		}
		return err
	}); err != nil {
		tb.Fatal(err)
	}
	for _, file := range parsed {
		for _, declared := range file.Decls {
			if function, ok := declared.(*ast.FuncDecl); ok {
				s.readCalls(function)
			}
		}
	}
	return s.found
}

// source is packages as they are written. No two of them have a statement of the same name.
type source struct {
	tb        testing.TB
	files     *token.FileSet
	constants map[string]ast.Expr
	seen      map[string]bool // by the statement's text
	found     []Statement
}

func (s *source) readConstants(file *ast.File) {
	for _, declared := range file.Decls {
		general, ok := declared.(*ast.GenDecl)
		if !ok || general.Tok != token.CONST {
			continue
		}
		for _, spec := range general.Specs {
			value, ok := spec.(*ast.ValueSpec)
			if !ok {
				continue
			}
			for i, expr := range value.Values {
				name := value.Names[i].Name
				if s.constants[name] != nil && strings.HasSuffix(name, "SQL") {
					s.tb.Errorf("%s: %s is declared twice", s.files.Position(expr.Pos()), name)
				}
				s.constants[name] = expr
			}
		}
	}
}

// readCalls collects the statements of one function: the argument after the context, or the first of a batch's Queue.
func (s *source) readCalls(function *ast.FuncDecl) {
	ast.Inspect(function, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		place := map[string]int{"Query": 1, "QueryRow": 1, "Exec": 1, "Prepare": 1, "Queue": 0}
		at, sends := place[method.Sel.Name]
		if !sends || len(call.Args) <= at {
			return true
		}
		if passed, ok := call.Args[at].(*ast.Ident); ok && passed.Name == "sql" {
			return true // the caller's own
		}
		text, err := s.text(call.Args[at])
		if err != nil {
			s.tb.Errorf("%s: the statement is no constant (%v): write it as one, so that its plan can be tested",
				s.files.Position(call.Pos()), err)
			return true
		}
		if planned := !slices.Contains([]string{"BEGIN", "COMMIT", "ROLLBACK"}, text); planned && !s.seen[text] {
			s.seen[text] = true
			s.found = append(s.found, Statement{Name: nameOf(call.Args[at], function), SQL: text})
		}
		return true
	})
}

func nameOf(expr ast.Expr, function *ast.FuncDecl) string {
	switch constant := expr.(type) {
	case *ast.Ident:
		return constant.Name
	case *ast.SelectorExpr:
		return constant.Sel.Name
	}
	return function.Name.Name
}

// text is the value of a constant expression.
func (s *source) text(expr ast.Expr) (string, error) {
	switch x := expr.(type) {
	case *ast.BasicLit:
		return strconv.Unquote(x.Value)
	case *ast.ParenExpr:
		return s.text(x.X)
	case *ast.Ident:
		value, ok := s.constants[x.Name]
		if !ok {
			return "", fmt.Errorf("%s is not declared as one", x.Name)
		}
		return s.text(value)
	case *ast.SelectorExpr:
		return s.text(x.Sel)
	case *ast.BinaryExpr:
		left, err := s.text(x.X)
		if err != nil {
			return "", err
		}
		right, err := s.text(x.Y)
		return left + right, err
	}
	return "", fmt.Errorf("%T", expr)
}
