package content_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/push/content"
)

// These are the examples of RFC 7396, appendix A, where both sides are objects.
func TestMergeIsAMergePatch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ original, patch, want string }{
		"a member is replaced":            {original: `{"a":"b"}`, patch: `{"a":"c"}`, want: `{"a":"c"}`},
		"a member is added":               {original: `{"a":"b"}`, patch: `{"b":"c"}`, want: `{"a":"b","b":"c"}`},
		"null removes the only member":    {original: `{"a":"b"}`, patch: `{"a":null}`, want: `{}`},
		"null removes one of two members": {original: `{"a":"b","b":"c"}`, patch: `{"a":null}`, want: `{"b":"c"}`},
		"a string replaces a list":        {original: `{"a":["b"]}`, patch: `{"a":"c"}`, want: `{"a":"c"}`},
		"a list replaces a string":        {original: `{"a":"c"}`, patch: `{"a":["b"]}`, want: `{"a":["b"]}`},
		"objects within are merged": {
			original: `{"a":{"b":"c"}}`, patch: `{"a":{"b":"d","c":null}}`, want: `{"a":{"b":"d"}}`,
		},
		"lists are replaced, not merged": {original: `{"a":[{"b":"c"}]}`, patch: `{"a":[1]}`, want: `{"a":[1]}`},
		"null of the original stays":     {original: `{"e":null}`, patch: `{"a":1}`, want: `{"e":null,"a":1}`},
		"null within a new object goes": {
			original: `{}`, patch: `{"a":{"bb":{"ccc":null}}}`, want: `{"a":{"bb":{}}}`,
		},
		"no patch": {original: `{"a":1}`, want: `{"a":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := content.Object([]byte(c.original))
			if err != nil {
				t.Fatal(err)
			}
			if err := content.Merge(got, []byte(c.patch)); err != nil {
				t.Errorf("%s over %s: %v", c.patch, c.original, err)
			}
			want, err := content.Object([]byte(c.want))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s over %s differs (-want +got):\n%s", c.patch, c.original, diff)
			}
		})
	}
}

// A notification's data is in the message as it was written. An override is laid over its members all the same.
func TestDataIsMergedWithWhatIsLaidOverIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ data, patch, want string }{
		"a member is added":     {data: `{"a":1.50}`, patch: `{"data":{"c":3}}`, want: `{"data":{"a":1.50,"c":3}}`},
		"null removes a member": {data: `{"a":1,"b":2}`, patch: `{"data":{"b":null}}`, want: `{"data":{"a":1}}`},
		"objects within": {
			data: `{"a":{"b":1}}`, patch: `{"data":{"a":{"c":2}}}`, want: `{"data":{"a":{"b":1,"c":2}}}`,
		},
		"null removes all":     {data: `{"a":1}`, patch: `{"data":null}`, want: `{}`},
		"nothing is laid over": {data: `{"a":1.50}`, patch: `{"x":1}`, want: `{"data":{"a":1.50},"x":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			message := map[string]any{"data": json.RawMessage(c.data)}
			if err := content.Merge(message, []byte(c.patch)); err != nil {
				t.Fatal(err)
			}
			if got, err := content.Encode("X", message, 1000); err != nil || string(got) != c.want {
				t.Errorf("%s over %s is %s, %v; want %s", c.patch, c.data, got, err, c.want)
			}
		})
	}
}

func TestNamesInAnotherCaseAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"delay":1,"Other":{"DELAY":1},"delays":1}`: "",
		`{"Delay":1,"delay":1}`:                      `"Delay" must be written delay: servers may take one for the other`,
		`{"DELAY":null}`:                             `"DELAY" must be written delay: servers may take one for the other`,
		`{"tagſ":1}`:                                 `"tagſ" must be written tags: servers may take one for the other`,
		`{"tags":1,"TAGS":1,"Tags":1}`:               `"TAGS" must be written tags: servers may take one for the other`,
	} {
		message, err := content.Object([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := content.CheckCase(message, "delay", "tags"); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: said %q, want %q", text, got, want)
		}
	}
}

func TestMergeRefusesWhatIsNoObject(t *testing.T) {
	t.Parallel()
	for _, patch := range []string{`null`, `[]`, `1`, `"a"`, `{`, `secret`} {
		err := content.Merge(map[string]any{}, json.RawMessage(patch))
		if err == nil || err.Error() != "must be a JSON object" {
			t.Errorf("%s gives %v", patch, err)
		}
	}
}

func TestEncodeKeepsTheLimit(t *testing.T) {
	t.Parallel()
	message := map[string]any{"a": "<&>", "n": json.Number("12345678901234567890")}
	const want = `{"a":"<&>","n":12345678901234567890}`
	if got, err := content.Encode("X", message, len(want)); err != nil || string(got) != want {
		t.Errorf("gives %s and %v, want %s", got, err, want)
	}
	_, err := content.Encode("X", message, len(want)-1)
	tooLong, ok := errors.AsType[*content.SizeError](err)
	if !ok || tooLong.Bytes != len(want) || tooLong.Most != len(want)-1 {
		t.Errorf("gives %v, want a SizeError", err)
	}
}
