package templates_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/templates"
)

func folder(files ...string) fstest.MapFS {
	all := fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		all[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return all
}

func load(t *testing.T, files ...string) *templates.Set {
	t.Helper()
	set, err := templates.Load(folder(files...))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestTheNearestLocaleIsUsed(t *testing.T) {
	t.Parallel()
	set := load(t, "hi/default/body.txt", "hello {{.name}}\n", "hi/de/body.txt", "hallo {{.name}}",
		"hi/de-AT/body.txt", "servus {{.name}}", "hi/pt_BR/body.txt", "olá", "other/default/body.txt", "x",
		"README.md",
		"not a template")
	for locale, want := range map[string]string{
		"": "hello ada", "en": "hello ada", "de": "hallo ada", "de-DE": "hallo ada", "de-AT": "servus ada",
		"DE_at": "servus ada", "de-AT-x-y": "servus ada", "pt": "hello ada", "pt-br": "olá", "default": "hello ada",
	} {
		t.Run(locale, func(t *testing.T) {
			t.Parallel()
			got, err := set.Render("hi", locale, json.RawMessage(`{"name":"ada"}`))
			if err != nil || got.Body != want {
				t.Errorf("%q gives %q, %v; want %q", locale, got.Body, err, want)
			}
		})
	}
	_, err := set.Render("ho", "", nil)
	if unknown, ok := errors.AsType[*templates.UnknownError](err); !ok || unknown.Name != "ho" ||
		err.Error() != `there is no template "ho"; there are hi, other` {
		t.Errorf("a template that is none gives %v", err)
	}
}

// Each part falls back by itself: to the language, and then to the default.
func TestEachPartFallsBackByItself(t *testing.T) {
	t.Parallel()
	set := load(t, "hi/default/title.txt", "title", "hi/default/body.txt", "body", "hi/default/body.html", "html",
		"hi/de/body.txt", "Text", "hi/de/body.html", "HTML", "hi/de-AT/title.txt", "Titel",
		"hi/fr/body.html", "le HTML")
	for locale, want := range map[string]templates.Content{
		"":      {Title: "title", Body: "body", HTML: "html"},
		"de":    {Title: "title", Body: "Text", HTML: "HTML"},
		"de-CH": {Title: "title", Body: "Text", HTML: "HTML"},
		"de-AT": {Title: "Titel", Body: "Text", HTML: "HTML"},
		"fr-CA": {Title: "title", Body: "body", HTML: "le HTML"},
	} {
		t.Run(locale, func(t *testing.T) {
			t.Parallel()
			got, err := set.Render("hi", locale, nil)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("content differs (-want +got), %v:\n%s", err, diff)
			}
		})
	}
}

// Text is not escaped, HTML is. Numbers come out as they were written.
func TestOnlyHTMLIsEscaped(t *testing.T) {
	t.Parallel()
	set := load(t, "a/default/title.txt", "{{.n}} new", "a/default/body.txt", "<{{.who}}>", "a/default/body.html",
		`<p title="{{.who}}">{{.who}}</p>`)
	got, err := set.Render("a", "", json.RawMessage(`{"n":12345678901234567890,"who":"<b>\"ü"}`))
	want := templates.Content{
		Title: "12345678901234567890 new", Body: `<<b>"ü>`,
		HTML: `<p title="&lt;b&gt;&#34;ü">&lt;b&gt;&#34;ü</p>`,
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("content differs (-want +got), %v:\n%s", err, diff)
	}
}

// A value that is null is written as nothing, in each part: nobody is greeted as <no value>.
func TestNullIsNothing(t *testing.T) {
	t.Parallel()
	const text = "hi{{with .name}} {{.}}{{end}}, order {{.order}}{{.of.note}}{{if eq .kind `gift`}}!{{end}}"
	set := load(t, "hi/default/title.txt", text, "hi/default/body.txt", text, "hi/default/body.html", text)
	got, err := set.Render("hi", "", json.RawMessage(`{"name":null,"order":7,"of":{"note":null},"kind":null}`))
	const want = "hi, order 7"
	if err != nil || got != (templates.Content{Title: want, Body: want, HTML: want}) {
		t.Errorf("got %+v, %v; want %q in each part", got, err, want)
	}
}

func TestDataThatDoesNotFitIsRefused(t *testing.T) {
	t.Parallel()
	set := load(t, "a/default/body.txt", "{{.name}} {{.address.city}}", "loop/default/body.txt",
		"{{range .x}}{{$.y}}{{end}}")
	for data, want := range map[string]string{
		``: `lacks "name"`, `{"name":"x"}`: `lacks "address"`, `{"name":"x","address":{}}`: `lacks "city"`,
		`{"name":"x","address":"canary"}`: "does not fit the template", `[]`: "must be a JSON object with the values that the template uses",
		`null`: "must be a JSON object with the values that the template uses",
	} {
		t.Run(data, func(t *testing.T) {
			t.Parallel()
			_, err := set.Render("a", "", json.RawMessage(data))
			if _, ok := errors.AsType[*templates.DataError](err); !ok || err.Error() != want {
				t.Errorf("%s gives %v, want %q", data, err, want)
			}
		})
	}
	huge := `{"x":[` + strings.Repeat("1,", 2000) + `1],"y":"` + strings.Repeat("y", 1000) + `"}`
	if _, err := set.Render("loop", "", json.RawMessage(huge)); err == nil ||
		!strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Errorf("a content without end gives %v", err)
	}
}

// What only some data can fill in is no fault of the template.
func TestTemplatesThatNeedDataAreTaken(t *testing.T) {
	t.Parallel()
	load(t, "a/default/title.txt", "", "a/default/body.txt",
		`{{define "x"}}{{.z.y}}{{end}}{{if .x}}{{template "x" .}}{{end}}`,
		"a/default/body.html", `<b>{{len .x}}{{index .x 1}}{{block "y" .}}{{.z.y}}{{end}}</b>`,
		"a/de/body.html", "")
}

func TestFoldersThatAreNoTemplatesAreRefused(t *testing.T) {
	t.Parallel()
	for want, files := range map[string][]string{
		"a/default/body.txt:1: unclosed action": {"a/default/body.txt", "{{.x"},
		"a/default: has no body.txt":            {"a/de/body.txt", "x", "a/default/title.txt", "x"},
		"a: has no folder default":              {"a/de/body.txt", "x"},
		"a/default/body.md: is no part":         {"a/default/body.md", "x"},
		"a/body.txt: must be a folder":          {"a/body.txt", "x"},
		"a/default/body.html: ends in a non-text context": {
			"a/default/body.txt", "x", "a/default/body.html", `<a href="{{.y}}`,
		},
		"a/de/body.html:1:18: {{if}} branches end in different contexts": {
			"a/default/body.txt", "x", "a/de/body.html", `<b>{{.x}}</b>{{if .y}}<a href="{{end}}">`,
		},
		`a/default/body.html:1:17: no such template "x"`: {
			"a/default/body.txt", "x", "a/default/body.html", `{{.y}}{{template "x"}}`,
		},
		`a/default/body.txt: uses the template "x", which it does not define`: {
			"a/default/body.txt", `{{.y}}{{with .z}}{{else}}{{template "x"}}{{end}}`,
		},
		`a/default/title.txt: uses the template "y", which it does not define`: {
			"a/default/body.txt", "x", "a/default/title.txt",
			`{{define "x"}}{{range .z}}{{template "y"}}{{end}}{{end}}{{template "x"}}`,
		},
		"a/de_AT: is the same locale as a/de-at": {
			"a/default/body.txt", "x", "a/de_AT/body.txt", "x", "a/de-at/title.txt", "x",
		},
		"may have at most 262144 bytes, has 262145": {"a/default/body.txt", strings.Repeat("x", 262145)},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			if _, err := templates.Load(folder(files...)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("gives %v, want %q", err, want)
			}
		})
	}
}
