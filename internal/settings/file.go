package settings

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
)

// settingsFile is a settings file: a flat YAML mapping of settings to values.
type settingsFile struct {
	path     string
	settings map[string]setting                          // by the flag's name
	named    map[notification.Channel]map[string]setting // of senders with names, by the setting's name
	faults   []error
}

// setting is one value in the file.
type setting struct {
	value        any // a string, or a []any of strings
	line, column int
}

// readFile reads a settings file. The keys and values of known are the names of the flags that the file may hold. The
// error joins all refusals, each a [*UsageError].
func readFile(path string, known map[string]string) (*settingsFile, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, refuse(configFlag, "can't be read: %v", err)
	}
	f := &settingsFile{path: path, settings: map[string]setting{}}
	tree, err := parseYAML(data)
	if err != nil {
		return nil, f.refuseSyntax(err)
	}
	for _, doc := range tree.Docs {
		switch body := doc.Body.(type) {
		case nil, *ast.CommentGroupNode, *ast.DirectiveNode:
		case *ast.MappingNode:
			f.readAll(body.Values, known)
		default:
			f.note(body, "a settings file must hold lines such as partitions: 16")
		}
	}
	if len(f.faults) > 0 {
		return nil, errors.Join(f.faults...)
	}
	return f, nil
}

// parseYAML turns a panic of the YAML parser into an error.
func parseYAML(data []byte) (tree *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
}

func (f *settingsFile) readAll(entries []*ast.MappingValueNode, known map[string]string) {
	for _, e := range entries {
		written := e.Key.GetToken().Value
		name := strings.ReplaceAll(written, "_", "-")
		before, repeated := f.settings[name]
		switch {
		case name == channelsSection:
			f.readChannels(e, known)
		case name == configFlag:
			f.note(e.Key, "config can't be set in the settings file itself")
		case known[name] == "":
			f.note(e.Key, "unknown setting %q%s", written, nearest.Hint(name, slices.Collect(maps.Keys(known))))
		case repeated:
			f.note(e.Key, "%s is already set on line %d", name, before.line)
		default:
			f.settings[name] = f.valueOf(name, e.Value)
		}
	}
}

// channelsSection holds the settings of each channel under its name: fcm: {credentials: …} is fcm-credentials.
const channelsSection = "channels"

func (f *settingsFile) readChannels(section *ast.MappingValueNode, known map[string]string) {
	channels, ok := section.Value.(*ast.MappingNode)
	if !ok {
		f.note(section.Value, "channels must hold channels, such as fcm: {credentials: file:fcm.json}")
		return
	}
	for _, channel := range channels.Values {
		name := channel.Key.GetToken().Value
		members, ok := channel.Value.(*ast.MappingNode)
		if !ok {
			f.note(channel.Value, "channels.%s must hold settings", name)
			continue
		}
		into, prefix, settings := f.settings, name+"-", known
		if strings.Contains(name, ":") {
			if into, settings = f.nameSender(channel, notification.Channel(name)); into == nil {
				continue
			}
			prefix = ""
		}
		for _, e := range members.Values {
			f.readMember(e, name, prefix, settings, into)
		}
	}
}

// readMember reads one setting of a channel.
func (f *settingsFile) readMember(e *ast.MappingValueNode, channel, prefix string, known map[string]string,
	into map[string]setting,
) {
	written := e.Key.GetToken().Value
	name := prefix + strings.ReplaceAll(written, "_", "-")
	before, repeated := into[name]
	switch {
	case known[name] == "":
		f.note(e.Key, "unknown setting %q of channel %s%s", written, channel,
			nearest.Hint(name, slices.Collect(maps.Keys(known))))
	case repeated:
		f.note(e.Key, "%s is already set on line %d", name, before.line)
	default:
		into[name] = f.valueOf(name, e.Value)
	}
}

// nameSender begins the settings of a sender with a name, and reports which there are; nil for a name that can't be
// used.
func (f *settingsFile) nameSender(at *ast.MappingValueNode, name notification.Channel) (into map[string]setting,
	known map[string]string,
) {
	var kinds []string
	for _, s := range (Channels{}).senders() {
		kinds = append(kinds, string(s.name))
		if s.name != name.Kind() {
			continue
		}
		known = map[string]string{}
		for field := range s.settings.Fields() {
			known[field.Tag.Get("name")] = field.Tag.Get("name")
		}
	}
	before, repeated := f.named[name]
	switch err := checkSenderName(name); {
	case known == nil:
		hint := nearest.Hint(string(name.Kind()), kinds)
		if hint == "" {
			hint = "; use one of " + nearest.List(kinds)
		}
		f.note(at.Key, "%q is not a kind of channel%s", name.Kind(), hint)
	case len(known) == 0:
		f.note(at.Key, "the channel %s has no settings, so it can't have named senders", name.Kind())
	case err != nil:
		f.note(at.Key, "%q %v", name, err)
	case repeated:
		f.note(at.Key, "%s is set twice, with %d settings before", name, len(before))
	default:
		if f.named == nil {
			f.named = map[notification.Channel]map[string]setting{}
		}
		f.named[name] = map[string]setting{}
		return f.named[name], known
	}
	return nil, nil
}

// valueOf reads the value of a setting.
func (f *settingsFile) valueOf(name string, node ast.Node) setting {
	at := position(node)
	s := setting{line: at.Line, column: at.Column}
	if list, ok := node.(*ast.SequenceNode); ok {
		items := make([]any, 0, len(list.Values))
		for _, item := range list.Values {
			text, ok := scalar(item)
			if !ok {
				f.note(item, "%s must be a list of single values", name)
			}
			items = append(items, text)
		}
		s.value = items
	} else if text, ok := scalar(node); ok {
		s.value = text
	} else {
		f.note(node, "%s must be a value or a list of values", name)
	}
	return s
}

// scalar is the text of a value as it is written.
func scalar(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// position is where a node of the file begins.
func position(node ast.Node) token.Position {
	if t := node.GetToken(); t != nil && t.Position != nil {
		return *t.Position
	}
	return token.Position{Line: 1, Column: 1}
}

func (f *settingsFile) note(at ast.Node, format string, args ...any) {
	p := position(at)
	f.faults = append(f.faults, f.refuse(p.Line, p.Column, format, args...))
}

func (f *settingsFile) refuse(line, column int, format string, args ...any) error {
	return &UsageError{
		Setting: fmt.Sprintf("%s:%d:%d:", f.path, line, column),
		Message: fmt.Sprintf(format, args...),
	}
}

func (f *settingsFile) refuseSyntax(err error) error {
	syntax, ok := err.(yaml.Error) //nolint:errorlint // the parser returns it unwrapped
	if !ok || syntax.GetToken() == nil {
		return f.refuse(1, 1, "not readable as YAML")
	}
	// The parser appends its own idea of the position in brackets.
	message, _, _ := strings.Cut(syntax.GetMessage(), " [level:")
	at := syntax.GetToken().Position
	return f.refuse(at.Line, at.Column, "not readable as YAML: %s", message)
}
