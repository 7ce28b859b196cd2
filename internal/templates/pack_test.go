package templates_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/templates"
)

// What was packed here is the same set there, without what is no template.
func TestPackedTemplatesAreTheSame(t *testing.T) {
	t.Parallel()
	packed, err := templates.Pack(folder("hi/default/title.txt", "Hello", "hi/default/body.txt", "hello {{.name}}\n",
		"hi/default/body.html", "<b>{{.name}}</b>",
		"hi/de-AT/body.txt", "servus {{.name}}", "README.md", "not a template", ".git/objects/ab/cd",
		strings.Repeat("x", 9<<20)))
	if err != nil {
		t.Fatal(err)
	}
	set, err := templates.Unpack(packed)
	if err != nil {
		t.Fatal(err)
	}
	for locale, want := range map[string]templates.Content{
		"":      {Title: "Hello", Body: "hello <a>", HTML: "<b>&lt;a&gt;</b>"},
		"de-AT": {Title: "Hello", Body: "servus <a>"},
	} {
		t.Run(locale, func(t *testing.T) {
			t.Parallel()
			if got, err := set.Render("hi", locale, json.RawMessage(`{"name":"<a>"}`)); err != nil || got != want {
				t.Errorf("%q: %+v, %v; want %+v", locale, got, err, want)
			}
		})
	}
}

func TestPackIsBounded(t *testing.T) {
	t.Parallel()
	files := []string{"a/default/body.txt", "x"}
	for i := range 42 {
		files = append(files, "a/l"+strings.Repeat("x", i)+"/body.txt", strings.Repeat("x", 200<<10))
	}
	if _, err := templates.Pack(folder(files...)); !errors.Is(err, templates.ErrTooLarge) {
		t.Errorf("8.4 MB are packed: %v", err)
	}
}

func TestUnpackRefusesWhatPackDidNotMake(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "PK", strings.Repeat("x", 1000)} {
		if _, err := templates.Unpack([]byte(bad)); err == nil {
			t.Errorf("%.10q is taken", bad)
		}
	}
}
