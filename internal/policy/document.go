package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/timespan"
)

// document reads values out of a YAML file and collects faults with their positions. Its methods go on after a fault,
// so that one run finds all of them.
type document struct {
	file     string
	channels []string // those that the file may name; nil for any
	anchors  map[string]ast.Node
	values   int  // how many nodes were read, each as often as it was
	full     bool // more than there may be
	faults   []*Fault
	// warnings are what is no fault; caps are the limits of the user cap, with their places.
	warnings []*Fault
	caps     []placed
	named    []placedCap
	quiet    bool               // the file has quiet hours
	written  map[string]written // by category, [userCap] and capNamed
}

// entry is one key of a mapping with its value, aliases already followed.
type entry struct {
	name  string
	key   ast.Node
	value ast.Node
}

// open parses the text. It returns nil, and notes the fault, when there is nothing to read values from.
func (d *document) open(text string) ast.Node {
	if len(text) > MaxFileBytes {
		d.addAt(1, 1, "the file has more than the %d bytes that a policy may have", MaxFileBytes)
		return nil
	}
	if at := invalidUTF8(text); at >= 0 {
		line := 1 + strings.Count(text[:at], "\n")
		d.addAt(line, at-strings.LastIndexByte(text[:at], '\n'), "the file is not valid UTF-8")
		return nil
	}
	if line := tooDeep(text); line > 0 {
		d.addAt(line, 1, "nested deeper, or on a longer line, than any policy is")
		return nil
	}
	file, err := parseYAML(strings.TrimPrefix(text, "\ufeff"))
	if err != nil {
		d.addSyntax(err)
		return nil
	}
	return d.body(file)
}

// invalidUTF8 is where the first invalid byte of a text is, or -1.
func invalidUTF8(text string) int {
	for i, r := range text {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(text[i:]); size == 1 {
				return i
			}
		}
	}
	return -1
}

// Bounds of the nesting: the parser's time and memory grow with its square.
const (
	maxOpenBrackets = 64
	maxLineBytes    = 4096
)

// tooDeep is the number of the first line that could be nested too deep for the parser, or 0. It counts every bracket,
// even in texts and comments. It bounds the lines as well, because each level of nesting without brackets takes a
// column.
func tooDeep(text string) int {
	open, number := 0, 0
	for line := range strings.Lines(text) {
		number++
		for _, c := range []byte(line) {
			switch c {
			case '[', '{':
				open++
			case ']', '}':
				open = max(open-1, 0)
			}
		}
		if open > maxOpenBrackets || len(line) > maxLineBytes {
			return number
		}
	}
	return 0
}

// parseYAML turns a panic of the YAML parser into an error: no file may end a running process.
func parseYAML(text string) (file *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("not readable as YAML: %v", r)
		}
	}()
	// Repeated keys are refused by entries, together with all other faults.
	return parser.ParseBytes([]byte(text), 0, parser.AllowDuplicateMapKey())
}

func (d *document) addSyntax(err error) {
	syntax, ok := err.(yaml.Error) //nolint:errorlint // the parser returns it unwrapped
	if !ok || syntax.GetToken() == nil {
		d.addAt(1, 1, "%v", err)
		return
	}
	// The parser appends its own idea of the position in brackets.
	message, _, _ := strings.Cut(syntax.GetMessage(), " [level:")
	at := syntax.GetToken().Position
	d.addAt(at.Line, at.Column, "not readable as YAML: %s", message)
}

// body is the one document of the file.
func (d *document) body(file *ast.File) ast.Node {
	var root ast.Node
	for _, doc := range file.Docs {
		switch doc.Body.(type) {
		case nil, *ast.DirectiveNode, *ast.CommentGroupNode:
			continue
		}
		if root != nil {
			d.add(doc.Body, "", "a policy is one YAML document, and a second begins here")
			return nil
		}
		root = doc.Body
	}
	if root == nil {
		d.addAt(1, 1, "the file is empty; begin it with version: 1")
		return nil
	}
	ast.Walk(anchorFinder{d}, root)
	return root
}

// anchorFinder remembers every anchor before any alias is followed.
type anchorFinder struct{ *document }

// Visit implements [ast.Visitor].
func (f anchorFinder) Visit(node ast.Node) ast.Visitor {
	anchor, ok := node.(*ast.AnchorNode)
	if !ok {
		return f
	}
	name := anchor.Name.GetToken().Value
	if _, repeated := f.anchors[name]; repeated {
		f.add(anchor, "", "the anchor %q is already in use", name)
	}
	f.anchors[name] = anchor.Value
	return f
}

// follow resolves anchors and aliases. For an alias of nothing, and for each value beyond those that a policy may
// have, it returns nil and notes the fault. Every element of a list and every value of a mapping comes here: a few
// aliases of aliases make a short file a very long one.
func (d *document) follow(path string, node ast.Node) ast.Node {
	// No chain of aliases is longer than there are anchors, unless it is a loop.
	for range 2*len(d.anchors) + 2 {
		if d.values++; d.values > MaxValues {
			d.add(node, "", "the file has more than the %d values that a policy may have, "+
				"with all that aliases repeat", MaxValues)
			d.full = true
			return nil
		}
		switch n := node.(type) {
		case *ast.AnchorNode:
			node = n.Value
		case *ast.AliasNode:
			name := n.Value.GetToken().Value
			target, ok := d.anchors[name]
			if !ok {
				d.add(n, path, "no anchor is named %q", name)
				return nil
			}
			node = target
		default:
			return node
		}
	}
	d.add(node, path, "the alias refers to itself")
	return nil
}

// entries are the keys of a mapping, in order. It notes keys that are no names or that repeat, and leaves them out.
func (d *document) entries(path string, node ast.Node) ([]entry, bool) {
	mapping, ok := node.(*ast.MappingNode)
	if !ok {
		d.add(node, path, "must be a mapping of keys to values")
		return nil, false
	}
	seen := make(map[string]int, len(mapping.Values))
	all := make([]entry, 0, len(mapping.Values))
	for _, v := range mapping.Values {
		name, ok := keyName(v.Key)
		if !ok {
			d.add(v.Key, path, "a key must be a plain name")
			continue
		}
		if line, repeated := seen[name]; repeated {
			d.add(v.Key, join(path, name), "is already set on line %d", line)
			continue
		}
		seen[name] = position(v.Key).Line
		value := d.follow(join(path, name), v.Value)
		if value == nil {
			continue
		}
		if _, empty := value.(*ast.NullNode); empty {
			value = ast.Null(v.Key.GetToken()) // the value has no position, so its faults show the key
		}
		all = append(all, entry{name: name, key: v.Key, value: value})
	}
	return all, true
}

// keyName is the text of a key.
func keyName(key ast.Node) (string, bool) {
	switch key.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return key.GetToken().Value, true
	}
	return "", false
}

// fields are the entries of a mapping whose keys are known. It notes the other keys.
func (d *document) fields(path string, node ast.Node, known ...string) (map[string]entry, bool) {
	all, ok := d.entries(path, node)
	fields := make(map[string]entry, len(all))
	for _, e := range all {
		if !slices.Contains(known, e.name) {
			d.add(e.key, join(path, e.name), "unknown key%s; known here: %s",
				nearest.Hint(e.name, known), strings.Join(known, ", "))
			continue
		}
		fields[e.name] = e
	}
	return fields, ok
}

// wholeNumber reads a whole number between low and high, both included.
func (d *document) wholeNumber(path string, node ast.Node, low, high int) int {
	if _, ok := node.(*ast.IntegerNode); !ok {
		d.add(node, path, "must be a whole number between %d and %d, is %s", low, high,
			nearest.Quote(node.String()))
		return low
	}
	text := node.GetToken().Value
	n, err := strconv.Atoi(text)
	// YAML reads 010 as eight and 1_0 as ten; the writer may mean something else.
	if err != nil || strconv.Itoa(n) != text {
		d.add(node, path, "must be a whole number between %d and %d, in plain decimal digits", low, high)
		return low
	}
	if n < low || n > high {
		d.add(node, path, "must be between %d and %d, is %d", low, high, n)
		return low
	}
	return n
}

// duration reads a duration between low and high, both included.
func (d *document) duration(path string, node ast.Node, low, high time.Duration) time.Duration {
	text, ok := scalar(node)
	if !ok {
		d.add(node, path, "must be a duration such as 500ms, 3s, 1m, 24h or 1d")
		return low
	}
	value, err := ParseDuration(text)
	if err != nil {
		d.add(node, path, "must be a duration such as 500ms, 3s, 1m, 24h or 1d, is %q", text)
		return low
	}
	if value < low || value > high {
		d.add(node, path, "must be %s, is %s", formatRange(low, high), text)
		return low
	}
	return value
}

// formatRange says between which durations one must lie.
func formatRange(low, high time.Duration) string {
	if low == 1 {
		return "more than 0 and at most " + formatDuration(high)
	}
	return "between " + formatDuration(low) + " and " + formatDuration(high)
}

// formatDuration shows whole days in days.
func formatDuration(d time.Duration) string {
	if d > 0 && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	return timespan.Text(d)
}

// flag reads true or false.
func (d *document) flag(path string, node ast.Node) bool {
	b, ok := node.(*ast.BoolNode)
	if !ok {
		d.add(node, path, "must be true or false")
		return false
	}
	return b.Value
}

// scalar is the text of a value that is not a list, mapping or null.
func scalar(node ast.Node) (string, bool) {
	switch node.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return node.GetToken().Value, true
	}
	return "", false
}

// add notes a fault at a node. An empty path stands for the whole file.
func (d *document) add(at ast.Node, path, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	if path != "" {
		message = path + ": " + message
	}
	p := position(at)
	d.addAt(p.Line, p.Column, "%s", message)
}

func (d *document) addAt(line, column int, format string, args ...any) {
	if d.full {
		return // it may only come of the values that were not read
	}
	d.faults = append(d.faults, &Fault{
		File: d.file, Line: max(line, 1), Column: max(column, 1), Message: fmt.Sprintf(format, args...),
	})
}

// position is where a node begins. A block mapping's own token is the colon of its first key.
func position(node ast.Node) token.Position {
	if m, ok := node.(*ast.MappingNode); ok && m.Start.Type != token.MappingStartType && len(m.Values) > 0 {
		node = m.Values[0].Key
	}
	if t := node.GetToken(); t != nil && t.Position != nil {
		return *t.Position
	}
	return token.Position{Line: 1, Column: 1}
}

// join extends a path: categories, chat → categories.chat. It quotes a name with other characters than a category's.
func join(path, name string) string {
	if !isCategoryName(name) {
		name = strconv.Quote(name)
	}
	if path == "" {
		return name
	}
	return path + "." + name
}
