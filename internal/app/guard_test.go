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

// However a token or a path is written, it counts as the same; and without tokens a made-up one counts as none.
func TestSpellingsShareALimit(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, onRedis, crowdPolicy, 0)
	for _, c := range []struct {
		name                 string
		tokens               []string
		perCaller, perRoute  int
		authorization, paths []string
	}{
		{"tokens", []string{"one"}, 3, 0, []string{"Bearer one", "bearer one", "BEARER one", "Bearer  one", "Bearer \tone", "beareR one"}, []string{"/v1/stats"}},
		{"no tokens", nil, 3, 0, []string{"", "Bearer a", "Bearer b", "Basic c", "d"}, []string{"/v1/stats"}},
		{"paths", []string{"one"}, 0, 3, []string{"Bearer one"}, []string{"/v1/stats", "/v1/st%61ts", "/v1/s%74ats", "/v1/%73tats?a=b"}},
		{"names", []string{"one"}, 0, 3, []string{"Bearer one"}, []string{"/v1/notifications/a", "/v1/notifications/bulk%41", "/v1/notifications/throttle", "/v1/notifications/b"}},
		{"nothing", []string{"one"}, 0, 3, []string{"Bearer one"}, []string{"/v1/a", "/v1/b", "/c", "/v2/d/e"}},
	} {
		s := d.settings()
		s.APITokens = c.tokens
		if c.perCaller > 0 {
			s.APILimits = []settings.RequestLimit{{Max: c.perCaller, Per: time.Hour}}
		}
		if c.perRoute > 0 {
			s.APIRouteLimits = []settings.RequestLimit{{Max: c.perRoute, Per: time.Hour}}
		}
		process := d.startWith(s)
		for i := range 6 {
			var header http.Header
			if value := c.authorization[i%len(c.authorization)]; value != "" {
				header = http.Header{"Authorization": {value}}
			}
			path := c.paths[i%len(c.paths)]
			status, reply := under(t, http.MethodGet, process.Addr(), path, process.Addr(), "", header)
			if limited := status == http.StatusTooManyRequests; limited != (i >= 3) || status == http.StatusUnauthorized {
				t.Errorf("%s: request %d, %v for %s: %d %s", c.name, i, header, path, status, reply)
			}
		}
		d.forgetCallers()
	}
}

// forgetCallers empties the windows of the API's callers.
func (d *fleet) forgetCallers() {
	d.t.Helper()
	client := d.client()
	for _, key := range client.Keys(d.t.Context(), "pacer:{api}:*").Val() {
		if err := client.Del(d.t.Context(), key).Err(); err != nil {
			d.t.Fatal(err)
		}
	}
}
