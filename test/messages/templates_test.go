package messages_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pacer-notify/pacer/internal/templates"
)

// loadTemplates reads a folder of files and their contents.
func loadTemplates(files ...string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		folder := fstest.MapFS{}
		for i := 0; i < len(files); i += 2 {
			folder[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
		}
		_, err := templates.Load(folder)
		if err == nil {
			t.Fatal("it is read")
		}
		return err.Error()
	}
}

// templateRows are faults of a folder of templates.
func templateRows() []row {
	return []row{
		{
			name: "no default", provoke: loadTemplates("hi/de/body.txt", "x"),
			want: "hi: has no folder default, which other locales fall back on",
		},
		{
			name: "no body", provoke: loadTemplates("hi/default/title.txt", "x"),
			want: "hi/default: has no body.txt",
		},
		{
			name: "a file beside the locales", provoke: loadTemplates("hi/body.txt", "x"),
			want: "hi/body.txt: must be a folder named as a locale, such as default or de-AT",
		},
		{
			name: "an unknown part", provoke: loadTemplates("hi/default/body.md", "x"),
			want: "hi/default/body.md: is no part of a template; title.txt, body.txt and body.html are",
		},
		{
			name: "an action that does not end", provoke: loadTemplates("hi/default/body.txt", "{{.x"),
			want: "template: hi/default/body.txt:1: unclosed action",
		},
		{
			name: "an unknown function", provoke: loadTemplates("hi/default/body.txt", "{{shout .x}}"),
			want: `template: hi/default/body.txt:1: function "shout" not defined`,
		},
		{
			name: "a long part", provoke: loadTemplates("hi/default/body.txt", strings.Repeat("x", 262_145)),
			want: "hi/default/body.txt: may have at most 262144 bytes, has 262145",
		},
	}
}
