package templates

import (
	"errors"
	"fmt"
	htmltemplate "html/template"
	"io"
	"slices"
	texttemplate "text/template"
	"text/template/parse"
)

// parseText reads title or body. It refuses what no data could fill in.
func parseText(file, text string) (executor, error) {
	part, err := texttemplate.New(file).Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, err
	}
	for _, of := range part.Templates() {
		for _, name := range used(of.Root) {
			if part.Lookup(name) == nil {
				return nil, fmt.Errorf("%s: uses the template %q, which it does not define", file, name)
			}
		}
	}
	return part, nil
}

// parseHTML reads an HTML part. It refuses what no data could fill in: package html/template finds the contexts of
// all values, whatever the data, when a template is executed for the first time.
func parseHTML(file, text string) (executor, error) {
	part, err := htmltemplate.New(file).Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, err
	}
	err = part.Execute(io.Discard, map[string]any{})
	if _, lacksData := errors.AsType[texttemplate.ExecError](err); err != nil && !lacksData {
		return nil, fmt.Errorf("can't be rendered, whatever the data: %w", err) // which names the file
	}
	return part, nil
}

// used are the names of the templates that a part of a template uses.
func used(node parse.Node) []string {
	switch n := node.(type) {
	case *parse.TemplateNode:
		return []string{n.Name}
	case *parse.IfNode:
		return slices.Concat(used(n.List), used(n.ElseList))
	case *parse.RangeNode:
		return slices.Concat(used(n.List), used(n.ElseList))
	case *parse.WithNode:
		return slices.Concat(used(n.List), used(n.ElseList))
	case *parse.ListNode:
		if n == nil {
			return nil // there is no else
		}
		var all []string
		for _, inner := range n.Nodes {
			all = append(all, used(inner)...)
		}
		return all
	}
	return nil
}
