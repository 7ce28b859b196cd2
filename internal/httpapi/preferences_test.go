package httpapi_test

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
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
	for body, want := range map[string]int{
		`{}`: http.StatusOK, full: http.StatusOK, `{"opt_out":`: http.StatusBadRequest,
		`{"time_zone":"Middle/Earth"}`: http.StatusUnprocessableEntity,
		`{"time_zone":"Local"}`:        http.StatusUnprocessableEntity, // the machine's
		`{"opt_in":{}}`:                http.StatusUnprocessableEntity,
		`{"limits":[]}`:                http.StatusUnprocessableEntity,
		// It would take the limits of the policy away.
		`{"limits":{"chat":null}}`:                                  http.StatusUnprocessableEntity,
		`{"limits":{"chat":{"limits":[{"max":"one","per":"1h"}]}}}`: http.StatusUnprocessableEntity,
	} {
		response := call(api, http.MethodPut, "/v1/users/ada/preferences", "application/json", strings.NewReader(body))
		if response.Code != want {
			t.Errorf("%s: status %d, want %d: %s", body, response.Code, want, response.Body)
		}
		if item := `{"user_id":"ada",` + strings.TrimPrefix(body, "{"); want == http.StatusUnprocessableEntity &&
			refusalOf(t, api, item) == "" {
			t.Errorf("a batch accepts %s", item)
		}
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

// A PUT with If-Match replaces only the version that it names.
func TestPreferencesKnowIfMatch(t *testing.T) {
	t.Parallel()
	api := newAPI(t, &store{})
	ask := func(method, match string) *httptest.ResponseRecorder {
		body := strings.NewReader("{}")
		request := httptest.NewRequestWithContext(t.Context(), method, "/v1/users/ada/preferences", body)
		request.Header.Set("Content-Type", "application/json")
		if match != "" {
			request.Header.Set("If-Match", match)
		}
		response := httptest.NewRecorder()
		api.ServeHTTP(response, request)
		return response
	}
	if tag := ask(http.MethodGet, "").Header().Get("ETag"); tag != `"7"` {
		t.Errorf("the ETag is %s", tag)
	}
	for match, want := range map[string]int{
		"": 200, "*": 200, `"7"`: 200, `"6"`: 412, `W/"7"`: 412, "7": 412, `"-1"`: 412, `"x"`: 412,
	} {
		response := ask(http.MethodPut, match)
		if tag := response.Header().Get("ETag"); response.Code != want || (tag == `"8"`) != (want == 200) {
			t.Errorf("If-Match %s gives %d with the ETag %s, want %d", match, response.Code, tag, want)
		}
	}
}
