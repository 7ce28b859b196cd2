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

func TestListingIsCheckedStrictly(t *testing.T) {
	t.Parallel()
	api := newAPI(t, &store{})
	for query, field := range map[string]string{ // the field that is at fault; none where it is accepted
		"": "", "limit=1": "", "limit=1000": "", "since=2026-01-02T15:04:05Z": "",
		"limit=0": "limit: ", "limit=1001": "limit: ", "since=yesterday": "since: ", "limit=1&limit=": "limit: ",
		"status=faild": "status: ", "category=chatt": "category: ", "channel=webhok": "channel: ",
		"results=errors": "results: ", "user=%zz": "query",
	} {
		response := call(api, http.MethodGet, "/v1/notifications?"+query, "", nil)
		if (response.Code == http.StatusOK) != (field == "") || !strings.Contains(response.Body.String(), field) {
			t.Errorf("%s: status %d: %s, want %q named", query, response.Code, response.Body, field)
		}
	}
}
