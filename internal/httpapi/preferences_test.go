package httpapi_test

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/httpapi"
	"github.com/pacer-notify/pacer/test/transcript"
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

// What encoding/json would ignore is refused, of one user and of many: nothing that somebody asked for is lost. The
// transcript has the members of preferences.
func TestNothingOfPreferencesIsIgnored(t *testing.T) {
	t.Parallel()
	api := newAPI(t, &store{})
	transcript.Play(t, "testdata/preferences.transcript", func(t *testing.T, lines []string) string {
		t.Helper()
		one := call(api, http.MethodPut, "/v1/users/ada/preferences", "application/json",
			strings.NewReader("{"+lines[0]+"}"))
		var problem struct{ Detail string }
		if err := json.Unmarshal(one.Body.Bytes(), &problem); err != nil {
			t.Fatal(err)
		}
		batch := strings.Replace(refusalOf(t, api, `{"user_id":"ada",`+lines[0]+`}`), ", user_id", "", 1)
		if batch != strings.TrimPrefix(problem.Detail, "body: ") {
			t.Errorf("%s is refused with %q, in a batch with %q", lines[0], problem.Detail, batch)
		}
		return cmp.Or(problem.Detail, "(accepted)")
	})
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
			if !strings.Contains(response.Body.String(), "limits.chat: ") {
				t.Errorf("%d %s", response.Code, response.Body)
			}
		})
	}
}

// An item of a batch is about one user, whose id is as it is written.
func TestABatchOfPreferencesKeepsUsersApart(t *testing.T) {
	t.Parallel()
	api := newAPI(t, &store{})
	for item, accepted := range map[string]bool{
		`{"user_id":"ada"}{"user_id":"ben","opt_out":{"categories":["chat"]}}`: false,
		`{"user_id":"ada"}]`:      false,
		` { "user_id" : "ada" } `: true,
	} {
		if refusal := refusalOf(t, api, item); (refusal == "") != accepted {
			t.Errorf("%s is refused with %q", item, refusal)
		}
	}
}

// refusalOf posts one item, and gives why it is refused, or nothing where it is accepted.
func refusalOf(t *testing.T, api http.Handler, item string) string {
	t.Helper()
	response := call(api, http.MethodPost, "/v1/preferences/bulk", "application/x-ndjson", strings.NewReader(item))
	var got httpapi.BulkPreferencesResponse
	if err := json.Unmarshal(response.Body.Bytes(), &got); err != nil || response.Code != http.StatusOK ||
		got.Accepted+got.Rejected != 1 || len(got.Results) != got.Rejected {
		t.Fatalf("batch: %v, %d %s", err, response.Code, response.Body)
	}
	if got.Accepted == 1 {
		return ""
	}
	return got.Results[0].Error
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
