package httpapi

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"slices"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed docs.html
var docsSource string

// operation is one entry of the documentation page.
type operation struct {
	Method, Path string
	*huma.Operation
}

// documentPage renders the OpenAPI document as a page that needs nothing else.
func documentPage(document *huma.OpenAPI) ([]byte, error) {
	page, err := template.New("docs").Parse(docsSource)
	if err != nil {
		return nil, fmt.Errorf("read the template of the documentation page: %w", err)
	}
	var operations []operation
	for path, item := range document.Paths {
		for method, o := range map[string]*huma.Operation{
			"GET": item.Get, "POST": item.Post, "PUT": item.Put,
			"DELETE": item.Delete,
		} {
			if o != nil {
				operations = append(operations, operation{method, path, o})
			}
		}
	}
	slices.SortFunc(operations, func(a, b operation) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(b.Method, a.Method))
	})
	var out bytes.Buffer
	err = page.Execute(&out, map[string]any{
		"Info": document.Info, "Operations": operations, "Schemas": document.Components.Schemas.Map(),
	})
	if err != nil {
		return nil, fmt.Errorf("render the documentation page: %w", err)
	}
	return out.Bytes(), nil
}
