package content_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/push/content"
)

// The examples of RFC 7396, appendix A, as far as both are objects.
func TestMergeIsAMergePatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ original, patch, want string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{`{"a":1}`, ``, `{"a":1}`},
	} {
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
	}
}

func TestMergeRefusesWhatIsNoObject(t *testing.T) {
	t.Parallel()
	for _, patch := range []string{`null`, `[]`, `1`, `"a"`, `{`, `secret`} {
		if err := content.Merge(map[string]any{}, json.RawMessage(patch)); err == nil || err.Error() != "must be a JSON object" {
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
	if tooLong, ok := errors.AsType[*content.SizeError](err); !ok || tooLong.Bytes != len(want) || tooLong.Most != len(want)-1 {
		t.Errorf("gives %v, want a SizeError", err)
	}
}
