package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/wire"
)

// pieces are what a JSON text is made of, and the UTF-16 that each means; nil where it is not Unicode.
var pieces = map[string][]uint16{
	`a`: {'a'}, `ü`: {'ü'}, `\n`: {'\n'}, `\\`: {'\\'}, `\"`: {'"'}, `\/`: {'/'}, `\u0041`: {'A'}, `u`: {'u'}, `d800`: {'d', '8', '0', '0'},
	`😀`: {0xD83D, 0xDE00}, "\uFFFD": {0xFFFD}, `\ufffd`: {0xFFFD}, `\ud800`: {0xD800}, `\uDBff`: {0xDBFF},
	`\udc00`: {0xDC00}, `\uDFFF`: {0xDFFF}, "\xff": nil, "\xed\xa0\x80": nil,
}

// text draws a JSON text and what it says; ok is false where no Go string is the same.
func text(t *rapid.T) (written, says string, ok bool) {
	var units []uint16
	ok = true
	for _, piece := range rapid.SliceOfN(rapid.SampledFrom(slices.Sorted(keysOf(pieces))), 0, 6).Draw(t, "pieces") {
		written += piece
		units = append(units, pieces[piece]...)
		ok = ok && pieces[piece] != nil
	}
	says = string(utf16.Decode(units))
	return `"` + written + `"`, says, ok && slices.Equal(utf16.Encode([]rune(says)), units)
}

func keysOf(m map[string][]uint16) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// first is the first member of a JSON object: its name and its value, a text.
func first(raw json.RawMessage) string {
	var members map[string]string
	if json.Unmarshal(raw, &members) == nil {
		for name, value := range members {
			return name + value
		}
	}
	return ""
}

// Every text in every field arrives as it was written, or is refused: no two values become one.
func TestWhatIsAcceptedIsWhatWasWritten(t *testing.T) {
	t.Parallel()
	fields := map[string]func(*intake.Request) string{
		`"id":%s`:                                func(r *intake.Request) string { return r.ID },
		`"user_id":%s`:                           func(r *intake.Request) string { return r.UserID },
		`"category":%s`:                          func(r *intake.Request) string { return r.Category },
		`"to":%s`:                                func(r *intake.Request) string { return r.To },
		`"title":%s`:                             func(r *intake.Request) string { return r.Title },
		`"body":%s`:                              func(r *intake.Request) string { return r.Body },
		`"collapse_key":%s`:                      func(r *intake.Request) string { return r.CollapseKey },
		`"group_key":%s`:                         func(r *intake.Request) string { return r.GroupKey },
		`"idempotency_key":%s`:                   func(r *intake.Request) string { return r.IdempotencyKey },
		`"data":{"":%s}`:                         func(r *intake.Request) string { return first(r.Data) },
		`"data":{%s:""}`:                         func(r *intake.Request) string { return first(r.Data) },
		`"channel":"c","c":{"":%s}`:              func(r *intake.Request) string { return first(r.Override) },
		`"template":{"name":%s}`:                 func(r *intake.Request) string { return r.Template.Name },
		`"template":{"name":"x","data":{"":%s}}`: func(r *intake.Request) string { return first(r.Template.Data) },
	}
	for form, value := range fields {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				written, says, ok := text(t)
				if says == "" && ok {
					written, says = `"x"`, "x" // a template needs a name
				}
				raw := fmt.Sprintf("{"+form+"}", written)
				r, err := wire.Decode([]byte(raw), []string{"c"})
				switch {
				case !ok && err == nil:
					t.Fatalf("%q is accepted", raw)
				case ok && (err != nil || value(&r) != says):
					t.Fatalf("%q becomes %q, %v; want %q", raw, value(&r), err, says)
				}
				var document map[string]any
				if err := wire.Unmarshal([]byte(raw), &document); (err == nil) != ok {
					t.Fatalf("%q as a document: %v", raw, err)
				}
			})
		})
	}
}

// Numbers arrive with all their digits, however many.
func TestNumbersArriveAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	const data = `{"a":9007199254740993,"b":[-0.10,1e400,0.1000000000000000055511151231257827]}`
	r, err := wire.Decode([]byte(`{"user_id":"ada","data":`+data+`}`), nil)
	if err != nil || string(r.Data) != data {
		t.Errorf("%s becomes %s, %v", data, r.Data, err)
	}
}

// A document is refused where it says the same twice, has more behind it, or a text that no store keeps; the refusal is
// in the words of its author.
func TestADocumentIsReadStrictly(t *testing.T) {
	t.Parallel()
	type document struct {
		Name  string         `json:"name"`
		Count int            `json:"count"`
		Tags  []string       `json:"tags"`
		More  map[string]any `json:"more"`
	}
	for raw, want := range map[string]string{
		`{"name":"a","name":"b"}`:  "name: is given twice",
		`{"more":{"a":1,"a":2}}`:   "more.a: is given twice",
		`{"name":"a\u0000"}`:       "name: must not hold the character U+0000",
		`{"more":{"a\u0000":1}}`:   "more: must not hold the character U+0000",
		"\xff\xfe{\x00}\x00":       "it is not UTF-8 but UTF-16, or binary; save it as UTF-8",
		`{"nam":"a"}`:              "nam: is not a field here",
		`{"count":"a"}`:            "count: must be a whole number, is a string",
		`{"count":1.5}`:            "count: must be a whole number, is a number",
		`{"tags":{}}`:              "tags: must be an array, is an object",
		`{"more":7}`:               "more: must be an object, is a number",
		`{"name":"a"}{"name":"b"}`: "there is more text after the object, from byte 13 on",
		`[]`:                       "it must be one JSON object, in { }",
		`{"name"`:                  "it ends too early, after 7 bytes",
		`{"\ud800":1}`:             "a name in it holds half of a character (a \\u escape from D800 to DFFF without its other half)",
		strings.Repeat(`{"a":`, 2): "it ends too early, after 10 bytes",
	} {
		err := wire.Unmarshal([]byte(raw), &document{})
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", raw, err, want)
		}
		_, malformed := errors.AsType[*wire.MalformedError](err)
		if malformed == (len(notification.FieldErrors(err)) > 0) {
			t.Errorf("%s: %T", raw, err)
		}
	}
}

// Programs on Windows begin a text with a byte order mark, and end its lines with two characters.
func TestAByteOrderMarkIsNoFault(t *testing.T) {
	t.Parallel()
	const text = "\ufeff{\"user_id\":\r\n\"ada\"}\r\n"
	r, err := wire.Decode([]byte(text), nil)
	if err != nil || r.UserID != "ada" {
		t.Errorf("%+v, %v", r, err)
	}
	var document map[string]string
	if err := wire.Unmarshal([]byte(text), &document); err != nil || document["user_id"] != "ada" {
		t.Errorf("%v, %v", document, err)
	}
}
