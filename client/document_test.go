package client_test

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// documentedFields are the properties of a schema in the API's document.
func documentedFields(t *testing.T, schema string) []string {
	t.Helper()
	text, err := os.ReadFile("../docs/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any
			}
		}
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	properties := document.Components.Schemas[schema].Properties
	if len(properties) == 0 {
		t.Fatalf("the document has no schema %s", schema)
	}
	return slices.Sorted(maps.Keys(properties))
}

// jsonFields are the names that a struct has in JSON.
func jsonFields(kind reflect.Type) []string {
	var names []string
	for _, field := range reflect.VisibleFields(kind) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
