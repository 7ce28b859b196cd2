package httpapi

import (
	"errors"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pacer-notify/pacer/internal/intake"
)

// What the store can't keep is refused for good, alone and in a batch: a 5xx would have it sent again for ever.
func TestWhatTheStoreCantKeepIsRefused(t *testing.T) {
	t.Parallel()
	refused, ok := errors.AsType[huma.StatusError](refusal(intake.ErrUnstorable))
	inBatch := itemError(intake.ErrUnstorable)
	if !ok || refused.GetStatus() != http.StatusUnprocessableEntity || inBatch != refused.Error() {
		t.Errorf("it is refused with %v, in a batch with %s", refused, inBatch)
	}
}

// A batch of far too many items is counted, and not taken apart: what it takes to refuse it does not grow with it.
//
//nolint:paralleltest // It counts what the process allocates: other tests would count too.
func TestABatchOfTooManyTakesLittleMemory(t *testing.T) {
	const many = 1 << 20
	for _, c := range []struct{ name, media, body string }{
		{name: "an array", media: mediaJSON, body: "[" + strings.Repeat("1,", many-1) + "1]"},
		{name: "lines", media: mediaNDJSON, body: strings.Repeat("1\n", many)},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := []byte(c.body)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := split(c.media, body, batchOfNotifications)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), strconv.Itoa(many)) {
				t.Errorf("said %v, want it to say how many", err)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 2<<20 {
				t.Errorf("it took %d bytes to refuse a batch of %d bytes", took, len(body))
			}
		})
	}
}

func TestABatchIsTakenApart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ media, body, want string }{ // nothing wanted: refused
		"as many as may be":        {media: mediaJSON, body: ` [1 , {"a":[1,2,3]}, ",,]\"," ] `, want: `1|{"a":[1,2,3]}|",,]\","`},
		"too many":                 {media: mediaJSON, body: `[[],[],"\\",{"a":1,"b":[2]}]`},
		"many, and no JSON at all": {media: mediaJSON, body: `[1,2,3,4,5,`},
		"no list":                  {media: mediaJSON, body: `{"a":1,"b":2,"c":3,"d":4}`},
		"none":                     {media: mediaJSON, body: `[ ]`},
		"nothing":                  {media: mediaJSON, body: `null`},
		"lines":                    {media: mediaNDJSON, body: "1\n\n 2\r\n\n\n{,,,,}", want: "1|2|{,,,,}"},
		"too many lines":           {media: mediaNDJSON, body: "1\n\n2\n3\n4\n \n5"},
		"lines of blanks":          {media: mediaNDJSON, body: "\n \n\t"},
		"a media's charset":        {media: mediaNDJSON + "; charset=utf-8", body: "1\n2", want: "1|2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			items, err := split(c.media, []byte(c.body), batchKind{3, "user", "users", "users' preferences"})
			texts := make([]string, len(items))
			for i, item := range items {
				texts[i] = string(item)
			}
			if got := strings.Join(texts, "|"); (err == nil) != (c.want != "") || err == nil && got != c.want {
				t.Errorf("%s\n got %s, %v\nwant %s", c.body, got, err, c.want)
			}
		})
	}
}
