package httpapi_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/httpapi"
)

func TestPreferencesAreCheckedStrictly(t *testing.T) {
	t.Parallel()
	api := newAPI(t, &store{})
	for body, want := range map[string]int{
		`{}`: http.StatusOK,
		`{"opt_out":{"categories":["chat"],"channels":[]},"limits":{"chat":{"limits":[{"max":1,"per":"1h"}],"min_gap":"5m"}},"time_zone":"Europe/Vienna"}`: http.StatusOK,
		`{"time_zone":"Middle/Earth"}`: http.StatusUnprocessableEntity,
		`{"time_zone":"Local"}`:        http.StatusUnprocessableEntity,
		`{"opt_in":{}}`:                http.StatusUnprocessableEntity,
		`{"limits":{"chat":{"limits":[{"max":"one","per":"1h"}]}}}`: http.StatusUnprocessableEntity,
		`{"limits":[]}`: http.StatusUnprocessableEntity,
		`{"opt_out":`:   http.StatusBadRequest,
	} {
		answer := call(api, http.MethodPut, "/v1/users/ada/preferences", "application/json", strings.NewReader(body))
		if answer.Code != want {
			t.Errorf("%s: status %d, want %d: %s", body, answer.Code, want, answer.Body)
		}
	}
}

func TestListingIsCheckedStrictly(t *testing.T) {
	t.Parallel()
	api := newAPI(t, &store{})
	for query, want := range map[string]int{
		"":                            http.StatusOK,
		"?limit=1":                    http.StatusOK,
		"?limit=1000":                 http.StatusOK,
		"?limit=0":                    http.StatusUnprocessableEntity,
		"?limit=1001":                 http.StatusUnprocessableEntity,
		"?status=lost":                http.StatusUnprocessableEntity,
		"?since=yesterday":            http.StatusUnprocessableEntity,
		"?since=2026-01-02T15:04:05Z": http.StatusOK,
	} {
		if answer := call(api, http.MethodGet, "/v1/notifications"+query, "", nil); answer.Code != want {
			t.Errorf("%s: status %d, want %d: %s", query, answer.Code, want, answer.Body)
		}
	}
}

func TestWhatNeedsPostgresSaysSo(t *testing.T) {
	t.Parallel()
	s := &store{}
	api, err := httpapi.New(httpapi.Config{
		Intake: s, Store: s, Throttle: s, Processes: s.Processes, HasCategory: func(string) bool { return true }, Version: "test",
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/notifications", "/v1/users/ada/preferences"} {
		answer := call(api, http.MethodGet, path, "", nil)
		if answer.Code != http.StatusNotImplemented || !strings.Contains(answer.Body.String(), "DATABASE_URL") {
			t.Errorf("%s: status %d %s, want 501 that names the setting", path, answer.Code, answer.Body)
		}
	}
}
