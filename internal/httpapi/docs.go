package httpapi

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed docs.html
var docsSource string

// group is what one does with the API for one purpose.
type group struct {
	Name, Text string
	Operations []operation
}

// groupsOf are the groups, in the order in which one needs them.
func groupsOf(operations []operation) []group {
	groups := []group{
		{Name: "Send", Text: "Send notifications, and take them back."},
		{Name: "Follow", Text: "See what became of them, and what has happened."},
		{Name: "Users", Text: "What decides whether one user's notifications go out, and what the user wants."},
		{Name: "Devices", Text: "Where a user's notifications go that name no target."},
		{Name: "Webhooks", Text: "URLs with keys and headers of their own."},
		{Name: "Operate", Text: "Counts of the whole deployment; what mail servers and readers of e-mails call."},
	}
	place := map[string]int{"notifications": 0, "events": 1, "users": 2, "devices": 3, "webhook endpoints": 4}
	for _, o := range operations {
		i, found := place[o.Tags[0]]
		switch {
		case !found:
			i = len(groups) - 1
		case i == 0 && o.Method == http.MethodGet:
			i = 1
		}
		groups[i].Operations = append(groups[i].Operations, o)
	}
	return groups
}

// operation is one entry of the documentation page.
type operation struct {
	Method, Path string
	// Curl makes a call that works as it stands; Came is what came.
	Curl, Came string
	Params     []field
	Bodies     []body
	Responses  []response
	*huma.Operation
}

// Statuses lists those of the responses.
func (o operation) Statuses() string {
	var all []string
	for _, r := range o.Responses {
		all = append(all, r.Status)
	}
	return strings.Join(all, ", ")
}

// curl writes the call of an example for a terminal.
func (e *example) curl() string {
	call := "curl -sS"
	if e.Method != http.MethodGet && (e.Method != http.MethodPost || len(e.Request) == 0) {
		call += " -X " + e.Method
	}
	call += " 'http://127.0.0.1:8080" + e.Path + "'"
	if len(e.Request) > 0 {
		data := "-d"
		if e.Type == mediaNDJSON {
			data = "--data-binary" // -d would take away the ends of lines
		}
		call += " \\\n  -H 'Content-Type: " + e.Type + "' \\\n  " + data + " '" + strings.ReplaceAll(pretty(e.Request), "'", `'\''`) + "'"
	}
	return call
}

// field is a parameter, or a member of a JSON object.
type field struct {
	Name, In, Type string
	Required       bool
	Rules, Text    string
	// Schema is the schema that the type is made of, if it has a name.
	Schema string
}

// body is what a request may carry in one media type.
type body struct {
	Media, Text string
	Examples    []shownExample
	Fields      []field
}

// response is what an operation may return.
type response struct {
	Status, Text, Schema string
	Examples             []shownExample
}

// shownExample is an example and, where there are several, the call that it is of.
type shownExample struct{ Of, Text string }

// object is a named schema.
type object struct {
	Name   string
	Fields []field
}

// page describes an OpenAPI document for people.
type page struct{ schemas huma.Registry }

// documentPage renders the OpenAPI document as a page that needs nothing else.
func documentPage(document *huma.OpenAPI, examples []example) ([]byte, error) {
	text, err := template.New("docs").Parse(docsSource)
	if err != nil {
		return nil, fmt.Errorf("read the template of the documentation page: %w", err)
	}
	p := page{document.Components.Schemas}
	var operations []operation
	for path, item := range document.Paths {
		for method, o := range methodsOf(item) {
			operations = append(operations, p.operation(method, path, o, examples))
		}
	}
	slices.SortFunc(operations, func(a, b operation) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(b.Method, a.Method))
	})
	var objects []object
	for name, schema := range sorted(document.Components.Schemas.Map()) {
		objects = append(objects, object{name, p.fields(schema)})
	}
	var out bytes.Buffer
	err = text.Execute(&out, map[string]any{
		"Info": document.Info, "Groups": groupsOf(operations), "Schemas": objects,
	})
	if err != nil {
		return nil, fmt.Errorf("render the documentation page: %w", err)
	}
	return out.Bytes(), nil
}

func (p page) operation(method, path string, o *huma.Operation, examples []example) operation {
	shown := operation{Method: method, Path: path, Operation: o}
	usual := slices.IndexFunc(examples, func(e example) bool { return e.Operation == o.OperationID && e.Status < 400 })
	if usual >= 0 { // a test makes sure that there is one
		shown.Curl, shown.Came = examples[usual].curl(), pretty(examples[usual].Response)
	}
	for _, param := range o.Parameters {
		f := p.field(param.Name, param.Schema, param.Required)
		f.In, f.Text = param.In, cmp.Or(param.Description, f.Text)
		shown.Params = append(shown.Params, f)
	}
	if o.RequestBody != nil {
		for media, of := range sorted(o.RequestBody.Content) {
			shown.Bodies = append(shown.Bodies, p.body(media, of))
		}
	}
	for status, r := range sorted(o.Responses) {
		shown.Responses = append(shown.Responses, p.response(status, r))
	}
	return shown
}

// body describes a request's body: the members of the object, or of the objects in a list.
func (p page) body(media string, of *huma.MediaType) body {
	b := body{Media: media, Examples: examplesOf(of)}
	if of.Schema == nil {
		return b
	}
	b.Text = of.Schema.Description
	schema := of.Schema
	if schema.Type == huma.TypeArray {
		schema, b.Text = schema.Items, cmp.Or(b.Text, "A list of objects.")
	}
	b.Fields = p.fields(schema)
	return b
}

func (p page) response(status string, r *huma.Response) response {
	shown := response{Status: status, Text: r.Description}
	for _, of := range sorted(r.Content) {
		if of.Schema != nil {
			shown.Schema = schemaName(of.Schema)
		}
		if len(shown.Examples) == 0 {
			shown.Examples = examplesOf(of)
		}
	}
	return shown
}

// fields lists the members of an object, the required ones first.
func (p page) fields(schema *huma.Schema) []field {
	if schema == nil {
		return nil
	}
	if schema.Ref != "" {
		schema = p.schemas.SchemaFromRef(schema.Ref)
	}
	var fields []field
	for name, property := range sorted(schema.Properties) {
		fields = append(fields, p.field(name, property, slices.Contains(schema.Required, name)))
	}
	slices.SortStableFunc(fields, func(a, b field) int { return cmp.Compare(rank(a), rank(b)) })
	return fields
}

func rank(f field) int {
	if f.Required {
		return 0
	}
	return 1
}

func (p page) field(name string, schema *huma.Schema, required bool) field {
	f := field{Name: name, Required: required}
	if schema == nil {
		return f
	}
	f.Text, f.Rules, f.Schema = schema.Description, rules(schema), schemaName(schema)
	f.Type = strings.TrimSpace(schema.Type + " " + schema.Format)
	switch {
	case schema.Type == huma.TypeArray && schema.Items != nil:
		f.Type = "list of"
		if f.Schema = schemaName(schema.Items); f.Schema == "" {
			f.Type += " " + schema.Items.Type
		}
	case f.Schema != "":
		f.Type = ""
	case f.Type == "":
		f.Type = "JSON"
	}
	return f
}

// rules say what a value must be like.
func rules(schema *huma.Schema) string {
	var all []string
	if len(schema.Enum) > 0 {
		var values []string
		for _, value := range schema.Enum {
			values = append(values, fmt.Sprint(value))
		}
		all = append(all, "one of "+strings.Join(values, ", "))
	}
	if schema.Default != nil {
		all = append(all, fmt.Sprintf("default %v", schema.Default))
	}
	if schema.MaxLength != nil {
		all = append(all, fmt.Sprintf("at most %d characters", *schema.MaxLength))
	}
	if schema.Minimum != nil {
		all = append(all, fmt.Sprintf("at least %v", *schema.Minimum))
	}
	if schema.Maximum != nil {
		all = append(all, fmt.Sprintf("at most %v", *schema.Maximum))
	}
	if schema.Pattern != "" {
		all = append(all, "matches "+schema.Pattern)
	}
	return strings.Join(all, "; ")
}

// schemaName is the name of a schema that is referred to; empty for any other.
func schemaName(schema *huma.Schema) string {
	return schema.Ref[strings.LastIndexByte(schema.Ref, '/')+1:]
}

// examplesOf are the examples of a media type, the usual one first.
func examplesOf(of *huma.MediaType) []shownExample {
	if text := pretty(of.Example); text != "" {
		return []shownExample{{Text: text}}
	}
	var all []shownExample
	for name, one := range sorted(of.Examples) {
		shown := shownExample{Of: one.Summary, Text: pretty(one.Value)}
		if name == usualExample {
			all = slices.Insert(all, 0, shown)
		} else {
			all = append(all, shown)
		}
	}
	return all
}

// pretty writes an example as people read it: JSON indented, a text as it is.
func pretty(of any) string {
	raw, ok := of.(json.RawMessage)
	if !ok {
		return ""
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		return string(raw)
	}
	return out.String()
}

// sorted goes through a map in the order of its keys.
func sorted[V any](m map[string]V) func(yield func(string, V) bool) {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}
