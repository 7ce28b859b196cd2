package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
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
			want := fmt.Sprintf("a batch may have at most 10000 items, this one has %d; split it", many)
			if err == nil || err.Error() != want {
				t.Errorf("said %v, want %s", err, want)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 2<<20 {
				t.Errorf("it took %d bytes to refuse a batch of %d bytes", took, len(body))
			}
		})
	}
}

func TestABatchIsTakenApart(t *testing.T) {
	t.Parallel()
	tooMany := func(n int) string {
		return fmt.Sprintf("a batch may have at most 3 users, this one has %d; split it", n)
	}
	for name, c := range map[string]struct{ media, body, want string }{
		"as many as may be":        {media: mediaJSON, body: ` [1 , {"a":[1,2,3]}, ",,]\"," ] `, want: `1|{"a":[1,2,3]}|",,]\","`},
		"too many":                 {media: mediaJSON, body: `[[],[],"\\",{"a":1,"b":[2]}]`, want: tooMany(4)},
		"many, and no JSON at all": {media: mediaJSON, body: `[1,2,3,4,5,`, want: "the body is not a JSON array of users' preferences: it is not valid JSON from byte 11 on"},
		"no list": {
			media: mediaJSON, body: `{"a":1,"b":2,"c":3,"d":4}`, want: "the body is not a JSON array of users' preferences: " +
				"its items must be in [ ]; to send one object a line, set the Content-Type to application/x-ndjson",
		},
		"none":              {media: mediaJSON, body: `[ ]`, want: "the batch is empty: send at least one user"},
		"nothing":           {media: mediaJSON, body: `null`, want: "the batch is empty: send at least one user"},
		"lines":             {media: mediaNDJSON, body: "1\n\n 2\r\n\n\n{,,,,}", want: "1|2|{,,,,}"},
		"too many lines":    {media: mediaNDJSON, body: "1\n\n2\n3\n4\n \n5", want: tooMany(5)},
		"lines of blanks":   {media: mediaNDJSON, body: "\n \n\t", want: "the batch is empty: send at least one user"},
		"a media's charset": {media: mediaNDJSON + "; charset=utf-8", body: "1\n2", want: "1|2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			items, err := split(c.media, []byte(c.body), batchKind{3, "user", "users", "users' preferences"})
			texts := make([]string, len(items))
			for i, item := range items {
				texts[i] = string(item)
			}
			got := strings.Join(texts, "|")
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("%s\n got %s\nwant %s", c.body, got, c.want)
			}
		})
	}
}
