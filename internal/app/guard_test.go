package app_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/settings"
)

// The limits of a token hold over all processes together, those of a route on that route alone.
func TestAPIIsLimited(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, onRedis, crowdPolicy, 0)
	s := d.settings()
	s.APITokens = []string{"one", "two"}
	s.APILimits = []settings.RequestLimit{{Max: 5, Per: time.Hour}}
	s.APIRouteLimits = []settings.RequestLimit{{Max: 3, Per: time.Hour}}
	d.startWith(s)
	d.startWith(s)
	first, second := d.apps[0], d.apps[1]
	ask := func(token, path string) int {
		t.Helper()
		d.apps[0], d.apps[1] = d.apps[1], d.apps[0] // another process each time
		return d.call(http.MethodGet, path, nil, http.Header{"Authorization": {"Bearer " + token}}, nil)
	}
	for i, want := range []struct {
		token, path string
		status      int
	}{
		{"one", "/v1/stats", 200},
		{"one", "/v1/stats", 200},
		{"one", "/v1/stats", 200},
		{"one", "/v1/stats", 429},
		{"one", "/v1/notifications/a", 404},
		{"one", "/v1/notifications/b", 404},
		{"one", "/v1/users/ada/throttle", 429},
		{"two", "/v1/stats", 200},
		{"three", "/v1/stats", 401},
	} {
		if got := ask(want.token, want.path); got != want.status {
			t.Errorf("request %d, token %s, %s: status %d, want %d", i, want.token, want.path, got, want.status)
		}
	}
	d.apps[0], d.apps[1] = first, second
}
