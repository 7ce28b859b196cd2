package keyspace_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
)

// No letters stand for two fields or two states, also for somebody who reads them aloud.
func TestLettersAreDistinct(t *testing.T) {
	t.Parallel()
	for _, of := range []any{keyspace.Fields, keyspace.States} {
		words, seen := reflect.ValueOf(of), map[string]string{}
		for field, value := range words.Fields() {
			letters := strings.ToLower(value.String())
			if other := seen[letters]; letters == "" || other != "" {
				t.Errorf("%s has the letters %q, as has %s", field.Name, value, other)
			}
			seen[letters] = field.Name
		}
	}
}
