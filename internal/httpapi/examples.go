package httpapi

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

// examplesSource are calls of the API and their responses, which a test makes against a running dispatcher (make
// openapi writes the responses anew).
//
//go:embed examples.json
var examplesSource []byte

// example is a call and its response.
type example struct {
	Operation string          `json:"operation"`
	Type      string          `json:"type"`    // of the request's body
	Request   json.RawMessage `json:"request"` // a string where the body is not JSON
	Status    int             `json:"status"`
	Response  json.RawMessage `json:"response"`
}

// addExamples puts the examples into the document: of several for one response, the first.
func addExamples(document *huma.OpenAPI) error {
	var examples []example
	if err := json.Unmarshal(examplesSource, &examples); err != nil {
		return fmt.Errorf("read the examples of the API: %w", err)
	}
	for _, e := range examples {
		operation := operationOf(document, e.Operation)
		if operation == nil {
			return fmt.Errorf("there is an example of operation %s, which the API does not have", e.Operation)
		}
		if operation.RequestBody != nil && e.Status < 300 {
			put(operation.RequestBody.Content, e.Type, e.Request)
		}
		response := operation.Responses[strconv.Itoa(e.Status)]
		if response == nil {
			return fmt.Errorf("there is an example of status %d of operation %s, which does not list it", e.Status,
				e.Operation)
		}
		for media := range response.Content {
			put(response.Content, media, e.Response)
		}
	}
	return nil
}

// put sets the example of a media type, unless it has one.
func put(content map[string]*huma.MediaType, media string, text json.RawMessage) {
	if of := content[media]; of != nil && of.Example == nil && len(text) > 0 {
		of.Example = text
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
