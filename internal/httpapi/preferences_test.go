package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
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
