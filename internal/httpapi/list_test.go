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
				!strings.Contains(response.Body.String(), "usr: ") {
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
	for query, field := range map[string]string{
		"status=faild": "status: ", "category=chatt": "category: ", "channel=webhok": "channel: ",
		"results=errors": "results: ", "limit=1&limit=": "limit: ", "user=%zz": "",
	} {
		response := call(api, http.MethodGet, "/v1/notifications?"+query, "", nil)
		if response.Code/100 != 4 || !strings.Contains(response.Body.String(), field) {
			t.Errorf("%s: status %d: %s, want %q named", query, response.Code, response.Body, field)
		}
	}
}
