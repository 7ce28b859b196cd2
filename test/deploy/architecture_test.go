package deploy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// namedPlace is a name in a document that links to the file which declares it: [`Type.Method`](path/file.go).
var namedPlace = regexp.MustCompile("\\[`([^`\\]]+)`\\]\\(([^)#]+\\.(?:go|lua))\\)")

// TestArchitectureNamesWhatThereIs holds the names that documents link to against the files that they link to.
func TestArchitectureNamesWhatThereIs(t *testing.T) {
	t.Parallel()
	for _, document := range []struct {
		name  string
		least int // how many names it has
	}{
		{name: "ARCHITECTURE.md", least: 60},
		{name: "README.md"},
		{name: "docs/glossary.md"},
		{name: "docs/extend/add-a-policy-key.md", least: 20},
		{name: "docs/extend/add-a-throttle-algorithm.md", least: 8},
	} {
		t.Run(document.name, func(t *testing.T) {
			t.Parallel()
			places := namedPlace.FindAllStringSubmatch(readFile(t, document.name), -1)
			if len(places) < document.least {
				t.Errorf("%d names are linked, want at least %d", len(places), document.least)
			}
			for _, place := range places {
				name, file := place[1], path.Join(path.Dir(document.name), place[2])
				if strings.HasSuffix(file, name) {
					continue // the file's own name
				}
				content, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
				if err != nil {
					t.Errorf("%s: %v", name, err)
				} else if !slices.Contains(declarations(t, file, string(content)), name) {
					t.Errorf("%s does not declare %s", file, name)
				}
			}
		})
	}
}

// TestDeclarationsAreFound says what counts as a name that a file declares.
func TestDeclarationsAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, file, content string
		want                []string
	}{
		{
			name: "functions and methods of Go", file: "a.go",
			content: "package a\n\nfunc F() { g := 1; _ = g }\n\nfunc (t *T[K]) M() {}\n\nfunc (t t) m() {}\n",
			want:    []string{"F", "T.M", "t.m"},
		},
		{
			name: "types, constants and variables of Go", file: "a.go",
			content: "package a\n\ntype T struct{ f int }\n\nconst C, D = 1, 2\n\nvar v = T{}\n",
			want:    []string{"T", "C", "D", "v"},
		},
		{
			name: "functions of Lua", file: "a.lua",
			content: "local function f(a)\n  local function g() end\nend\nlocal x = 1\n-- function h\n",
			want:    []string{"f", "g"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := declarations(t, c.file, c.content); !slices.Equal(got, c.want) {
				t.Errorf("declared are %q, want %q", got, c.want)
			}
		})
	}
}

// luaFunction is a declaration of one.
var luaFunction = regexp.MustCompile(`(?m)^\s*(?:local )?function (\w+)\(`)

// declarations returns the names that a file of Go or Lua declares at its top, methods as Type.Method.
func declarations(t *testing.T, file, content string) []string {
	t.Helper()
	var names []string
	if strings.HasSuffix(file, ".lua") {
		for _, found := range luaFunction.FindAllStringSubmatch(content, -1) {
			names = append(names, found[1])
		}
		return names
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, content, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, declared := range parsed.Decls {
		switch d := declared.(type) {
		case *ast.FuncDecl:
			names = append(names, receiverOf(d)+d.Name.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				for _, name := range declaredNames(spec) {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}

// receiverOf gives a method's type and a dot, and nothing for a function.
func receiverOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	kind := f.Recv.List[0].Type
	if pointer, ok := kind.(*ast.StarExpr); ok {
		kind = pointer.X
	}
	switch generic := kind.(type) {
	case *ast.IndexExpr:
		kind = generic.X
	case *ast.IndexListExpr:
		kind = generic.X
	}
	return nameOf(kind) + "."
}

// TestArchitectureShowsTheTransitions holds the picture of the statuses against the table in the code.
func TestArchitectureShowsTheTransitions(t *testing.T) {
	t.Parallel()
	table := transitionTable(t)
	shown := pictureOf(t, readFile(t, "ARCHITECTURE.md"))
	for from, followers := range table {
		for _, to := range followers {
			if !shown[from][to] {
				t.Errorf("the picture lacks %s --> %s", from, to)
			}
		}
		for to := range shown[from] {
			if to != ends && !slices.Contains(followers, to) {
				t.Errorf("the picture shows %s --> %s, which the table does not allow", from, to)
			}
		}
	}
	for from, followers := range shown {
		if _, known := table[from]; from != ends && !known {
			t.Errorf("the picture shows %s, which is no status", from)
		}
		if len(table[from]) == 0 != followers[ends] && from != ends {
			t.Errorf("%s --> %s is shown: %t; the table has %q after it", from, ends, followers[ends], table[from])
		}
	}
}

// ends is how Mermaid writes the beginning and the end of a life.
const ends = "[*]"

// transitionTable reads the domain's table of transitions, by the names of the statuses. The table is not exported, so
// it is read from the source.
func transitionTable(t *testing.T) map[string][]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), "status.go", readFile(t, "internal/notification/status.go"), 0)
	if err != nil {
		t.Fatal(err)
	}
	names, table := map[string]string{}, map[string][]string{}
	ast.Inspect(parsed, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		switch value := spec.Values[0].(type) {
		case *ast.BasicLit:
			if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Status" {
				names[spec.Names[0].Name], _ = strconv.Unquote(value.Value)
			}
		case *ast.CompositeLit:
			if spec.Names[0].Name != "transitions" {
				return true
			}
			for _, row := range value.Elts {
				from, followers := rowOf(row)
				for _, to := range followers {
					table[names[from]] = append(table[names[from]], names[nameOf(to)])
				}
			}
		}
		return true
	})
	for _, status := range names {
		if _, has := table[status]; !has {
			table[status] = nil
		}
	}
	if len(table) != 10 || len(table["sending"]) == 0 {
		t.Fatalf("the table of transitions is not understood: %v", table)
	}
	return table
}

// rowOf splits an entry of a map of slices.
func rowOf(row ast.Expr) (key string, values []ast.Expr) {
	pair, ok := row.(*ast.KeyValueExpr)
	if !ok {
		return "", nil
	}
	list, ok := pair.Value.(*ast.CompositeLit)
	if !ok {
		return "", nil
	}
	return nameOf(pair.Key), list.Elts
}

// nameOf returns the name that an expression consists of, if it does.
func nameOf(e ast.Expr) string {
	if name, ok := e.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

// pictureOf reads the arrows of a document's state diagram. An arrow from a state that holds others leaves each.
func pictureOf(t *testing.T, document string) map[string]map[string]bool {
	t.Helper()
	_, picture, found := strings.Cut(document, "```mermaid\nstateDiagram-v2\n")
	picture, _, closed := strings.Cut(picture, "```")
	if !found || !closed {
		t.Fatal("no state diagram found")
	}
	shown, within, group := map[string]map[string]bool{}, map[string]map[string]bool{}, ""
	for line := range strings.Lines(picture) {
		words := strings.Fields(line)
		switch {
		case len(words) == 3 && words[0] == "state" && words[2] == "{":
			group = words[1]
			within[group] = map[string]bool{}
		case len(words) == 1 && words[0] == "}":
			group = ""
		case len(words) == 3 && words[1] == "-->":
			if shown[words[0]] == nil {
				shown[words[0]] = map[string]bool{}
			}
			shown[words[0]][words[2]] = true
			if group != "" {
				within[group][words[0]], within[group][words[2]] = true, true
			}
		}
	}
	for group, members := range within {
		for member := range members {
			if shown[member] == nil {
				shown[member] = map[string]bool{}
			}
			maps.Copy(shown[member], shown[group])
		}
		delete(shown, group)
	}
	return shown
}
