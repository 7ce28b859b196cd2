package templates_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/templates"
	"github.com/pacer-notify/pacer/test/transcript"
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

// Title and body fall back by themselves: to the language, and then to the default. A text has only the HTML beside it
// that is at least as near: no mail has its text in one language and its HTML in another one, which programs show.
func TestTitleAndBodyFallBackByThemselves(t *testing.T) {
	t.Parallel()
	set := load(t, "hi/default/title.txt", "title", "hi/default/body.txt", "body", "hi/default/body.html", "html",
		"hi/de/body.txt", "Text", "hi/de/body.html", "HTML", "hi/de-AT/title.txt", "Titel",
		"hi/fr/body.html", "le HTML", "hi/it/body.txt", "testo", "hi/de-CH/body.txt", "Text ch")
	for locale, want := range map[string]templates.Content{
		"":      {Title: "title", Body: "body", HTML: "html"},
		"de":    {Title: "title", Body: "Text", HTML: "HTML"},
		"de-CH": {Title: "title", Body: "Text ch"},
		"de-LI": {Title: "title", Body: "Text", HTML: "HTML"},
		"it-CH": {Title: "title", Body: "testo"},
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
	transcript.Play(t, "testdata/data.transcript", func(t *testing.T, lines []string) string {
		t.Helper()
		name, data, _ := strings.Cut(lines[0], " ")
		_, err := set.Render(name, "", json.RawMessage(data))
		if _, ok := errors.AsType[*templates.DataError](err); !ok || strings.Contains(err.Error(), "canary") {
			t.Fatalf("%s gives %v", data, err)
		}
		return err.Error()
	})
}

// What only some data can fill in is no fault of the template.
func TestTemplatesThatNeedDataAreTaken(t *testing.T) {
	t.Parallel()
	load(t, "a/default/title.txt", "", "a/default/body.txt",
		`{{define "x"}}{{.z.y}}{{end}}{{if .x}}{{template "x" .}}{{end}}`,
		"a/default/body.html", `<b>{{len .x}}{{index .x 1}}{{block "y" .}}{{.z.y}}{{end}}</b>`,
		"a/de/body.html", "")
}

// A folder is played as lines of a path and what the file holds.
func TestFoldersThatAreNoTemplatesAreRefused(t *testing.T) {
	t.Parallel()
	transcript.Play(t, "testdata/folders.transcript", func(t *testing.T, lines []string) string {
		t.Helper()
		var files []string
		for _, line := range lines {
			path, content, _ := strings.Cut(line, ": ")
			files = append(files, path, content)
		}
		_, err := templates.Load(folder(files...))
		if err == nil {
			t.Fatalf("%q are taken", files)
		}
		return err.Error()
	})
}
