package deploy_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestRetiredWordsStayOut fails when a file of the project uses a word that docs/glossary.md replaced. The list of them
// is in words_list_test.go.
func TestRetiredWordsStayOut(t *testing.T) {
	t.Parallel()
	var passages []passage
	for _, name := range projectFiles(t) {
		if history(name) {
			continue
		}
		passages = append(passages, readPassages(t, name)...)
	}
	if len(passages) < 10_000 {
		t.Fatalf("%d passages found in the project's files: the test does not see what it is for", len(passages))
	}
	for _, word := range retiredWords {
		t.Run(word.name, func(t *testing.T) {
			t.Parallel()
			if found := word.findAll(passages); len(found) > 0 {
				t.Errorf("say %s (%s):\n%s", word.use, word.reason, strings.Join(found, "\n"))
			}
		})
	}
}

// TestRetiredWordsAreFound plants each retired word, in every kind of file, and the honest uses beside it.
func TestRetiredWordsAreFound(t *testing.T) {
	t.Parallel()
	for _, word := range retiredWords {
		t.Run(word.name, func(t *testing.T) {
			t.Parallel()
			if word.use == "" || word.reason == "" {
				t.Error("the list does not say which word to use, and why")
			}
			for planted := range strings.FieldsSeq(word.identifiers) {
				for name, content := range map[string]string{
					"a.go":      "package a\n\nfunc new" + strings.ToUpper(planted[:1]) + planted[1:] + "() {}\n",
					"a_test.go": "package a\n\nvar " + planted + "Of = 1\n",
					"a.lua":     "local old_" + planted + " = 1\n",
					"a.js":      "const old" + strings.ToUpper(planted[:1]) + planted[1:] + " = 1;\n",
				} {
					if len(word.findIn(name, content)) != 1 {
						t.Errorf("%q in the identifiers of %s is not found", planted, name)
					}
				}
			}
			if (word.prose == "") != (len(word.planted) == 0) {
				t.Error("a pattern for prose needs planted sentences, and the other way round")
			}
			for _, sentence := range word.planted {
				for name, content := range inEveryKindOfFile(sentence) {
					if len(word.findIn(name, content)) != 1 {
						t.Errorf("%q in %s is not found", sentence, name)
					}
				}
			}
			for _, sentence := range word.honest {
				for name, content := range inEveryKindOfFile(sentence) {
					if found := word.findIn(name, content); len(found) != 0 {
						t.Errorf("%q in %s is honest, yet found: %v", sentence, name, found)
					}
				}
			}
		})
	}
}

// inEveryKindOfFile puts a sentence into each kind of file that people read.
func inEveryKindOfFile(sentence string) map[string]string {
	broken := strings.Replace(sentence, " ", "\n// ", 1)
	return map[string]string{
		"comment.go": "package a\n\n// X is here: " + broken + "\nvar X = 1\n",
		"string.go":  fmt.Sprintf("package a\n\nvar X = %q\n", sentence),
		"a.lua":      "local x = 1\n-- " + sentence + "\n",
		"a.sql":      "-- " + sentence + "\nSELECT 1;\n",
		"a.md":       "# X\n\n" + strings.Replace(sentence, " ", "\n", 1) + "\n",
		"a.html":     "<p>" + sentence + "</p>\n",
		"a.js":       "// " + sentence + "\n",
		"a.yaml":     "a: " + sentence + "\n",
	}
}

// retiredWord is a word that the project gave up, in one sense at least.
type retiredWord struct {
	name string
	// identifiers are the words, as parts of names in code: tick stands for setTick and tick_at, not for ticket.
	identifiers string
	// prose is a regular expression, in lower case, for comments, strings and documents of any case. A space in it
	// stands for any space, a new line included.
	prose string
	// stem stands in every match of prose, which is looked for only where the stem is: that is faster by far.
	stem string
	// use is the word to use, reason why this one went.
	use, reason string
	// planted are sentences in which prose must be found, honest such in which it must not.
	planted, honest []string
	// allowed are the places where the word means something else.
	allowed []allowance
}

// allowance is where a word may stand: in files whose names begin with path, on lines that match line; empty for all.
type allowance struct{ path, line, reason string }

// passage is a piece of a file: one identifier, or one comment, string or document.
type passage struct {
	file       string
	line       int // of its beginning
	identifier bool
	parts      []string // of an identifier
	text       string   // in lower case, if it is prose
	lines      []string // of the file
}

// findIn finds the word in a file with this content.
func (w retiredWord) findIn(name, content string) []string {
	return w.findAll(splitPassages(name, content))
}

// findAll finds the word in passages.
func (w retiredWord) findAll(passages []passage) []string {
	prose := regexp.MustCompile(strings.ReplaceAll(w.prose, " ", `\s+`))
	var found []string
	for _, p := range passages {
		found = append(found, w.find(p, prose)...)
	}
	return found
}

// find returns the places of a passage that hold the word and may not, each as its file, its line and what stands
// there.
func (w retiredWord) find(p passage, prose *regexp.Regexp) []string {
	var found []string
	add := func(line int) {
		text := strings.TrimSpace(p.lines[line-1])
		for _, a := range w.allowed {
			if strings.HasPrefix(p.file, a.path) && regexp.MustCompile(a.line).MatchString(text) {
				return
			}
		}
		found = append(found, fmt.Sprintf("%s:%d: %s", p.file, line, text))
	}
	if p.identifier {
		if slices.ContainsFunc(p.parts, w.retires) {
			add(p.line)
		}
		return found
	}
	if w.prose == "" || !strings.Contains(p.text, w.stem) {
		return nil
	}
	for _, at := range prose.FindAllStringIndex(p.text, -1) {
		add(p.line + strings.Count(p.text[:at[0]], "\n"))
	}
	return found
}

// retires reports whether a part of a name is one of the word's.
func (w retiredWord) retires(part string) bool {
	return slices.Contains(strings.Fields(w.identifiers), part)
}

// nameParts splits a name into its words, in lower case: HTTPServer_of2 gives http, server and of2.
func nameParts(name string) []string {
	var parts []string
	var part []rune
	runes := []rune(name)
	for i, r := range runes {
		starts := unicode.IsUpper(r) &&
			(i > 0 && !unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if (r == '_' || starts) && len(part) > 0 {
			parts, part = append(parts, string(part)), nil
		}
		if r != '_' {
			part = append(part, unicode.ToLower(r))
		}
	}
	return append(parts, string(part))
}

// projectFiles lists the files that Git tracks, by their paths from the top; without Git, all there are.
func projectFiles(t *testing.T) []string {
	t.Helper()
	top := filepath.Join("..", "..")
	list, err := exec.CommandContext(t.Context(), "git", "-C", top, "ls-files", "-z").Output()
	if err == nil && len(list) > 0 {
		return strings.Split(strings.Trim(string(list), "\x00"), "\x00")
	}
	t.Logf("git does not list the project's files (%v): walking the tree instead", err)
	return walkFiles(t, top)
}

// walkFiles lists the files below top, without what npm installs and what is built.
func walkFiles(t *testing.T, top string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", "node_modules", "bin", "dist"}, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(top, path)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// readPassages reads a file of the project and splits it.
func readPassages(t *testing.T, name string) []passage {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed, and not yet committed
	}
	if err != nil {
		t.Fatal(err)
	}
	return splitPassages(name, string(content))
}

// splitPassages returns the names and the prose of a file of a kind that people read, and nothing of any other.
func splitPassages(name, content string) []passage {
	lines := strings.Split(content, "\n")
	switch filepath.Ext(name) {
	case ".go":
		return goPassages(name, content, lines)
	case ".lua":
		return codePassages(name, lines, "--", true)
	case ".js", ".mjs":
		return codePassages(name, lines, "//", true)
	case ".sql":
		return codePassages(name, lines, "--", false)
	case ".md", ".html", ".yml", ".yaml", ".json", ".sh", ".tmpl":
		return []passage{{file: name, line: 1, text: strings.ToLower(content), lines: lines}}
	}
	if base := filepath.Base(name); base == "Makefile" || base == "Dockerfile" {
		return []passage{{file: name, line: 1, text: strings.ToLower(content), lines: lines}}
	}
	return nil
}

// goPassages returns the names that a Go file declares, its comments and its strings.
func goPassages(name, content string, lines []string) []passage {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil // the compiler says so
	}
	var passages []passage
	add := func(node ast.Node, identifier bool, text string) {
		line := files.Position(node.Pos()).Line
		p := passage{file: name, line: line, identifier: identifier, text: text, lines: lines}
		if identifier {
			p.parts = nameParts(text)
		}
		passages = append(passages, p)
	}
	for _, group := range parsed.Comments {
		var text []string
		for _, comment := range group.List {
			text = append(text, strings.TrimPrefix(comment.Text, "//"))
		}
		add(group, false, strings.ToLower(strings.Join(text, "\n")))
	}
	ast.Inspect(parsed, func(node ast.Node) bool {
		for _, declared := range declaredNames(node) {
			add(declared, true, declared.Name)
		}
		if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			add(literal, false, strings.ToLower(literal.Value))
		}
		return true
	})
	return passages
}

// declaredNames returns the names that a node of a Go file declares.
func declaredNames(node ast.Node) []*ast.Ident {
	switch n := node.(type) {
	case *ast.FuncDecl:
		return []*ast.Ident{n.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{n.Name}
	case *ast.ValueSpec:
		return n.Names
	case *ast.Field:
		return n.Names
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			return namesAmong(n.Lhs)
		}
	case *ast.RangeStmt:
		if n.Tok == token.DEFINE {
			return namesAmong([]ast.Expr{n.Key, n.Value})
		}
	}
	return nil
}

// namesAmong returns the expressions that are plain names.
func namesAmong(expressions []ast.Expr) []*ast.Ident {
	var names []*ast.Ident
	for _, e := range expressions {
		if name, ok := e.(*ast.Ident); ok {
			names = append(names, name)
		}
	}
	return names
}

// luaOrJSName is a name in a script. One in a string counts too: it may be the name of a key or a field.
var luaOrJSName = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

// codePassages returns the names and the comments of a file whose comments run to the end of the line.
func codePassages(name string, lines []string, marker string, names bool) []passage {
	var passages []passage
	var comment []string
	begin := 0
	end := func() {
		if comment != nil {
			text := strings.ToLower(strings.Join(comment, "\n"))
			passages = append(passages, passage{file: name, line: begin, text: text, lines: lines})
			comment = nil
		}
	}
	for i, line := range lines {
		code, said, commented := strings.Cut(line, marker)
		if strings.TrimSpace(code) != "" || !commented {
			end()
		}
		if commented {
			if comment == nil {
				begin = i + 1
			}
			comment = append(comment, said)
		}
		if !names {
			continue
		}
		for _, found := range luaOrJSName.FindAllString(code, -1) {
			passages = append(passages, passage{
				file: name, line: i + 1, identifier: true, parts: nameParts(found), text: found, lines: lines,
			})
		}
	}
	end()
	return passages
}
