package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/httpapi"
)

func TestPreferencesAreCheckedStrictly(t *testing.T) {
	t.Parallel()
	api := newAPI(t, &store{})
	const full = `{"opt_out":{"categories":["chat"],"channels":[]},` +
		`"limits":{"chat":{"limits":[{"max":1,"per":"1h"}],"min_gap":"5m"}},"time_zone":"Europe/Vienna"}`
	for _, tt := range []struct {
		name, body string
		want       int
	}{
		{name: "empty", body: `{}`, want: http.StatusOK},
		{name: "full", body: full, want: http.StatusOK},
		{name: "unknown time zone", body: `{"time_zone":"Middle/Earth"}`, want: http.StatusUnprocessableEntity},
		{name: "the machine's time zone", body: `{"time_zone":"Local"}`, want: http.StatusUnprocessableEntity},
		{name: "unknown field", body: `{"opt_in":{}}`, want: http.StatusUnprocessableEntity},
		{
			name: "limit that is no number", body: `{"limits":{"chat":{"limits":[{"max":"one","per":"1h"}]}}}`,
			want: http.StatusUnprocessableEntity,
		},
		{name: "limits that are no object", body: `{"limits":[]}`, want: http.StatusUnprocessableEntity},
		{name: "cut off", body: `{"opt_out":`, want: http.StatusBadRequest},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			body := strings.NewReader(tt.body)
			response := call(api, http.MethodPut, "/v1/users/ada/preferences", "application/json", body)
			if response.Code != tt.want {
				t.Errorf("%s: status %d, want %d: %s", tt.body, response.Code, tt.want, response.Body)
			}
		})
	}
}

// What encoding/json would ignore is refused, of one user and of many: nothing that somebody asked for is lost.
func TestNothingOfPreferencesIsIgnored(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ fields, want string }{
		"twice": {
			fields: `"opt_out":{"categories":["chat"]},"opt_out":{"categories":[]}`, want: "opt_out: is given twice",
		},
		"twice within": {
			fields: `"opt_out":{"channels":["log"],"channels":[]}`, want: "opt_out.channels: is given twice",
		},
		"in capitals": {
			fields: `"time_zone":"UTC","TIME_ZONE":"Europe/Vienna"`,
			want:   "TIME_ZONE: must be written time_zone, in small letters",
		},
		"in capitals within": {
			fields: `"opt_out":{"categories":["chat"],"Categories":[]}`,
			want:   "opt_out.Categories: must be written categories, in small letters",
		},
		"a long s": {
			fields: `"opt_out":{"categorie\u017f":[]}`,
			want:   "opt_out.categorieſ: must be written categories, in small letters",
		},
		"limits in capitals": {
			fields: `"limits":{"chat":{"limits":[{"max":1,"Max":100,"per":"1h"}]}}`,
			want:   "limits.chat.limits.[].Max: must be written max, in small letters",
		},
		"a category of that name": {fields: `"limits":{"LIMITS":{"limits":[]},"Limits":{"limits":[],"min_gap":"1s"}}`},
		"quiet hours in capitals": {
			fields: `"quiet_hours":{"off":true,"OFF":false}`,
			want:   "quiet_hours.OFF: must be written off, in small letters",
		},
		"not UTF-8": {fields: "\"limits\":{\"\xff\":{\"limits\":[]}}", want: "it is not valid UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := newAPI(t, &store{})
			one := call(api, http.MethodPut, "/v1/users/ada/preferences", "application/json",
				strings.NewReader("{"+c.fields+"}"))
			var problem struct{ Detail string }
			if err := json.Unmarshal(one.Body.Bytes(), &problem); err != nil || problem.Detail != c.want {
				t.Errorf("PUT: %v, %d %s, want %q", err, one.Code, one.Body, c.want)
			}
			checkBatch(t, api, `{"user_id":"ada",`+c.fields+`}`, c.want)
		})
	}
}

// Null is no limits of one's own, which would take those of the policy away: neither one user nor a batch may say it.
func TestNullIsNoLimits(t *testing.T) {
	t.Parallel()
	for path, body := range map[string]string{
		"/v1/users/ada/preferences": `{"limits":{"chat":null}}`,
		"/v1/preferences/bulk":      `{"user_id":"ada","limits":{"chat":null}}`,
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			method, media := http.MethodPut, "application/json"
			if strings.HasSuffix(path, "/bulk") {
				method, media = http.MethodPost, "application/x-ndjson"
			}
			response := call(newAPI(t, &store{}), method, path, media, strings.NewReader(body))
			if !strings.Contains(response.Body.String(), "limits.chat: must be an object") {
				t.Errorf("%d %s", response.Code, response.Body)
			}
		})
	}
}

// An item of a batch is about one user, whose id is as it is written.
func TestABatchOfPreferencesKeepsUsersApart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ item, want string }{
		"two on a line": {
			item: `{"user_id":"ada"}{"user_id":"ben","opt_out":{"categories":["chat"]}}`,
			want: "there is more text after the object, from byte 19 on",
		},
		"a bracket behind": {item: `{"user_id":"ada"}]`, want: "there is more text after the object, from byte 18 on"},
		"two ids":          {item: `{"user_id":"ada","user_id":"eve"}`, want: "user_id: is given twice"},
		"two ids, one in capitals": {
			item: `{"user_id":"ada","USER_ID":"eve"}`, want: "USER_ID: must be written user_id, in small letters",
		},
		"an id in capitals": {item: `{"User_ID":"eve"}`, want: "User_ID: must be written user_id, in small letters"},
		"not UTF-8":         {item: "{\"user_id\":\"a\xffda\"}", want: "it is not valid UTF-8"},
		"blanks around it":  {item: ` { "user_id" : "ada" } `},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkBatch(t, newAPI(t, &store{}), c.item, c.want)
		})
	}
}

// checkBatch posts one item, and wants it to be refused with a text, or accepted where that is empty.
func checkBatch(t *testing.T, api http.Handler, item, want string) {
	t.Helper()
	response := call(api, http.MethodPost, "/v1/preferences/bulk", "application/x-ndjson", strings.NewReader(item))
	var got httpapi.BulkPreferencesResponse
	if err := json.Unmarshal(response.Body.Bytes(), &got); err != nil || response.Code != http.StatusOK {
		t.Fatalf("batch: %v, %d %s", err, response.Code, response.Body)
	}
	wanted := httpapi.BulkPreferencesResponse{Accepted: 1, Results: []httpapi.BulkPreferencesResult{}}
	if want != "" {
		wanted = httpapi.BulkPreferencesResponse{
			Rejected: 1, Results: []httpapi.BulkPreferencesResult{{Error: want}},
		}
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("batch (-want +got):\n%s", diff)
	}
}

func TestListingIsCheckedStrictly(t *testing.T) {
	t.Parallel()
	api := newAPI(t, &store{})
	for _, tt := range []struct {
		name, query string
		want        int
	}{
		{name: "all", query: "", want: http.StatusOK},
		{name: "smallest limit", query: "?limit=1", want: http.StatusOK},
		{name: "largest limit", query: "?limit=1000", want: http.StatusOK},
		{name: "limit too small", query: "?limit=0", want: http.StatusUnprocessableEntity},
		{name: "limit too large", query: "?limit=1001", want: http.StatusUnprocessableEntity},
		{name: "unknown status", query: "?status=lost", want: http.StatusUnprocessableEntity},
		{name: "no time", query: "?since=yesterday", want: http.StatusUnprocessableEntity},
		{name: "since", query: "?since=2026-01-02T15:04:05Z", want: http.StatusOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			response := call(api, http.MethodGet, "/v1/notifications"+tt.query, "", nil)
			if response.Code != tt.want {
				t.Errorf("%s: status %d, want %d: %s", tt.query, response.Code, tt.want, response.Body)
			}
		})
	}
}
