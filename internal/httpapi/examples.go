package httpapi

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// examplesSource are calls of the API and their responses, which a test makes against a running dispatcher (make
// openapi writes the responses anew).
//
//go:embed examples.json
var examplesSource []byte

// usualExample is the name of an example that has none, where there are others with names.
const usualExample = "usual"

// example is a call and its response. Without a name it is shown if it is the first of its kind; with one, beside
// others.
type example struct {
	Name      string          `json:"name"`
	Operation string          `json:"operation"`
	Method    string          `json:"method"`
	Path      string          `json:"path"`
	Type      string          `json:"type"`    // of the request's body
	Request   json.RawMessage `json:"request"` // a string where the body is not JSON
	Status    int             `json:"status"`
	Response  json.RawMessage `json:"response"`
}

// readExamples reads the examples.
func readExamples() (examples []example, err error) {
	if err := json.Unmarshal(examplesSource, &examples); err != nil {
		return nil, fmt.Errorf("read the examples of the API: %w", err)
	}
	return examples, nil
}

// addExamples puts the examples into the document: of several for one response the first, and those with names.
func addExamples(document *huma.OpenAPI, examples []example) error {
	for _, e := range examples {
		operation := operationOf(document, e.Operation)
		if operation == nil {
			return fmt.Errorf("there is an example of operation %s, which the API does not have", e.Operation)
		}
		if operation.RequestBody != nil && e.Status < 300 {
			for media := range operation.RequestBody.Content {
				e.put(operation.RequestBody.Content, media, e.requestAs(media))
			}
		}
		response := operation.Responses[strconv.Itoa(e.Status)]
		if response == nil {
			return fmt.Errorf("there is an example of status %d of operation %s, which does not list it", e.Status,
				e.Operation)
		}
		for media := range response.Content {
			e.put(response.Content, media, e.Response)
		}
	}
	return nil
}

// mediaForm is what browsers send.
const mediaForm = "application/x-www-form-urlencoded"

// requestAs is the request in a media type: forms are shown as objects. It is empty where the example does not fit.
func (e *example) requestAs(media string) json.RawMessage {
	var text string
	switch {
	case e.Type == mediaForm && json.Unmarshal(e.Request, &text) == nil:
		fields := map[string]string{}
		values, _ := url.ParseQuery(text) // the test sends what is shown
		for name := range values {
			fields[name] = values.Get(name)
		}
		shown, _ := json.Marshal(fields) // texts can be written
		return shown
	case e.Type == media:
		return e.Request
	case e.Type == mediaNDJSON && media == mediaJSON && e.Operation == "put-many-preferences" &&
		json.Unmarshal(e.Request, &text) == nil:
		return json.RawMessage("[" + strings.ReplaceAll(text, "\n", ",") + "]")
	}
	return nil
}

// put adds the text to the examples of a media type, unless it has one of the name.
func (e *example) put(content map[string]*huma.MediaType, media string, text json.RawMessage) {
	of := content[media]
	if of == nil || len(text) == 0 {
		return
	}
	if e.Name == "" && of.Examples == nil {
		if of.Example == nil {
			of.Example = text
		}
		return
	}
	if of.Examples == nil {
		of.Examples = map[string]*huma.Example{}
		if of.Example != nil {
			of.Examples[usualExample] = &huma.Example{Value: of.Example}
			of.Example = nil
		}
	}
	if name := cmp.Or(e.Name, usualExample); of.Examples[name] == nil {
		of.Examples[name] = &huma.Example{Summary: e.Method + " " + e.Path, Value: text}
	}
}

func operationOf(document *huma.OpenAPI, id string) *huma.Operation {
	for _, item := range document.Paths {
		for _, o := range methodsOf(item) {
			if o.OperationID == id {
				return o
			}
		}
	}
	return nil
}

// methodsOf are the operations of a path.
func methodsOf(item *huma.PathItem) map[string]*huma.Operation {
	methods := map[string]*huma.Operation{}
	for method, o := range map[string]*huma.Operation{
		"GET": item.Get, "POST": item.Post, "PUT": item.Put, "PATCH": item.Patch, "DELETE": item.Delete,
	} {
		if o != nil {
			methods[method] = o
		}
	}
	return methods
}
