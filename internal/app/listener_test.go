package app_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/test/apitest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// Both listeners are asked by their own names alone, and the limits of the API hold over all processes.
func TestListenersAreGuarded(t *testing.T) {
	t.Parallel()
	d := newDeploymentOn(t, onRedis, redistest.URL(t))
	guarded := func() *settings.Resolved {
		s := d.settings()
		s.AllowedHosts = []string{"pacer.example"}
		s.APIRouteLimits = []settings.RequestLimit{{Max: 2, Per: time.Hour}}
		return s
	}
	d.run(guarded, guarded)
	ask := func(address, path, host string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		response, err := apitest.Once.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close() // its status is all that is asked for
		return response.StatusCode
	}
	first, second := d.apps[0], d.apps[1]
	for _, c := range []struct {
		name, address, path, host string
		want                      int
	}{
		{"the API under a foreign name", first.Addr(), "/v1/stats", "evil.example", http.StatusMisdirectedRequest},
		{
			"the ops pages under a foreign name", first.OpsAddr(), "/snapshot", "evil.example",
			http.StatusMisdirectedRequest,
		},
		{"the ops pages under an allowed name", first.OpsAddr(), "/metrics", "pacer.example", http.StatusOK},
		{"the API under an allowed name", first.Addr(), "/v1/stats", "pacer.example", http.StatusOK},
		{"another process", second.Addr(), "/v1/stats", second.Addr(), http.StatusOK},
		{"one too many for all processes", first.Addr(), "/v1/stats", first.Addr(), http.StatusTooManyRequests},
	} {
		if got := ask(c.address, c.path, c.host); got != c.want {
			t.Errorf("%s: status %d, want %d", c.name, got, c.want)
		}
	}
}
