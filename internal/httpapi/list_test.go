package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
)

// Every call refuses a parameter that it does not take: without this, ?usr=ada lists somebody else's notifications.
func TestUnknownParametersAreRefused(t *testing.T) {
	t.Parallel()
	api := newAPI(t, &store{})
	for _, o := range operations {
		t.Run(o.method+" "+o.template, func(t *testing.T) {
			t.Parallel()
			path := o.path + "?usr=ada"
			if strings.Contains(o.path, "?") {
				path = o.path + "&usr=ada"
			}
			response := call(api, o.method, path, o.contentType, strings.NewReader(o.body))
			if response.Code != http.StatusUnprocessableEntity ||
				!strings.Contains(response.Body.String(), "usr: is not a parameter of this call") {
				t.Errorf("status %d: %s", response.Code, response.Body)
			}
			if got := response.Header().Get("Content-Type"); got != "application/problem+json" {
				t.Errorf("content type %q", got)
			}
		})
	}
}

func TestListingRefusesWrongValues(t *testing.T) {
	t.Parallel()
	api := newAPI(t, &store{})
	for query, want := range map[string]string{
		"status=faild":   "did you mean failed?",
		"category=chatt": "did you mean chat?",
		"channel=webhok": "did you mean webhook?",
		"results=errors": "results: is not a parameter of this call",
		"limit=1&limit=": "limit: is given more than once",
		"user=%zz":       "percent-encoded",
	} {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			response := call(api, http.MethodGet, "/v1/notifications?"+query, "", nil)
			if response.Code/100 != 4 || !strings.Contains(response.Body.String(), want) {
				t.Errorf("status %d: %s, want %q", response.Code, response.Body, want)
			}
		})
	}
}
