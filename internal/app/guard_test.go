package app_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/settings"
)

// The limits of a token hold over all processes together, those of a route on that route alone.
//
//nolint:paralleltest,tparallel // Each request counts for those after it.
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
	for _, c := range []struct {
		name, token, path string
		want              int
	}{
		{name: "first", token: "one", path: "/v1/stats", want: 200},
		{name: "second", token: "one", path: "/v1/stats", want: 200},
		{name: "last that a route may get", token: "one", path: "/v1/stats", want: 200},
		{name: "one too many for a route", token: "one", path: "/v1/stats", want: 429},
		{name: "another route", token: "one", path: "/v1/notifications/a", want: 404},
		{name: "last that a caller may send", token: "one", path: "/v1/notifications/b", want: 404},
		{name: "one too many for a caller", token: "one", path: "/v1/users/ada/throttle", want: 429},
		{name: "another caller", token: "two", path: "/v1/stats", want: 200},
		{name: "unknown caller", token: "three", path: "/v1/stats", want: 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ask(c.token, c.path); got != c.want {
				t.Errorf("token %s, %s: status %d, want %d", c.token, c.path, got, c.want)
			}
		})
	}
	d.apps[0], d.apps[1] = first, second
}

// However a token or a path is written, it counts as the same; and without tokens a made-up one counts as none.
func TestSpellingsShareALimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                 string
		tokens               []string
		perCaller, perRoute  int
		authorization, paths []string
	}{
		{
			name: "tokens", tokens: []string{"one"}, perCaller: 3,
			authorization: []string{
				"Bearer one", "bearer one", "BEARER one", "Bearer  one", "Bearer \tone", "beareR one",
			},
			paths: []string{"/v1/stats"},
		},
		{
			name: "no tokens", perCaller: 3,
			authorization: []string{"", "Bearer a", "Bearer b", "Basic c", "d"},
			paths:         []string{"/v1/stats"},
		},
		{
			name: "paths", tokens: []string{"one"}, perRoute: 3,
			authorization: []string{"Bearer one"},
			paths:         []string{"/v1/stats", "/v1/st%61ts", "/v1/s%74ats", "/v1/%73tats?a=b"},
		},
		{
			name: "names", tokens: []string{"one"}, perRoute: 3,
			authorization: []string{"Bearer one"},
			paths: []string{
				"/v1/notifications/a", "/v1/notifications/bulk%41", "/v1/notifications/throttle", "/v1/notifications/b",
			},
		},
		{
			name: "nothing", tokens: []string{"one"}, perRoute: 3,
			authorization: []string{"Bearer one"},
			paths:         []string{"/v1/a", "/v1/b", "/c", "/v2/d/e"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newDeployment(t, onRedis, crowdPolicy, 0)
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
				if limited := status == http.StatusTooManyRequests; limited != (i >= 3) ||
					status == http.StatusUnauthorized {
					t.Errorf("request %d, %v for %s: %d %s", i, header, path, status, reply)
				}
			}
		})
	}
}
