package httpapi_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/httpapi"
	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// counter is a limiter that lets the first requests of each key pass.
type counter struct {
	throttle.Limiter
	used map[throttle.Key]int
}

// Spend implements [throttle.Limiter].
func (c *counter) Spend(_ context.Context, key throttle.Key, plan throttle.Plan, _ string) (throttle.Usage, error) {
	c.used[key]++
	most := plan.Rules[0].Max
	usage := throttle.Usage{Rules: []throttle.RuleUsage{{Rule: plan.Rules[0], Used: min(c.used[key], most)}}}
	if usage.Allowed = c.used[key] <= most; !usage.Allowed {
		usage.At = throttle.Micros(time.Hour.Microseconds())
	}
	return usage, nil
}

// However a token or a path is written, it counts as the same; and without tokens a made-up one counts as none.
func TestSpellingsShareALimit(t *testing.T) {
	t.Parallel()
	bearer, stats := []string{"Bearer one"}, []string{"/v1/stats"}
	for _, c := range []struct {
		name                 string
		tokens               []string
		perCaller, perRoute  int
		authorization, paths []string
	}{
		{
			name: "tokens", tokens: []string{"one"}, perCaller: 3, paths: stats,
			authorization: []string{
				"Bearer one", "bearer one", "BEARER one", "Bearer  one", "Bearer \tone", "beareR one",
			},
		},
		{name: "no tokens", perCaller: 3, paths: stats, authorization: []string{"", "Bearer a", "Bearer b", "Basic c", "d"}},
		{
			name: "paths", tokens: []string{"one"}, perRoute: 3, authorization: bearer,
			paths: []string{"/v1/stats", "/v1/st%61ts", "/v1/s%74ats", "/v1/%73tats?a=b"},
		},
		{
			name: "names", tokens: []string{"one"}, perRoute: 3, authorization: bearer,
			paths: []string{
				"/v1/notifications/a", "/v1/notifications/bulk%41", "/v1/notifications/throttle", "/v1/notifications/b",
			},
		},
		{
			name: "nothing", tokens: []string{"one"}, perRoute: 3, authorization: bearer,
			paths: []string{"/v1/a", "/v1/b", "/c", "/v2/d/e"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rules := func(most int) []throttle.Rule {
				if most == 0 {
					return nil
				}
				return []throttle.Rule{{Max: most, Per: time.Hour}}
			}
			api := limitedAPI(t, rules(c.perCaller), rules(c.perRoute), c.tokens...)
			for i := range 6 {
				authorization, path := c.authorization[i%len(c.authorization)], c.paths[i%len(c.paths)]
				if status := ask(t, api, authorization, path); (status == http.StatusTooManyRequests) != (i >= 3) ||
					status == http.StatusUnauthorized {
					t.Errorf("request %d, %q for %s: %d", i, authorization, path, status)
				}
			}
		})
	}
}

// The limit of a route counts apart from that of its caller, and callers count apart.
func TestCallersAndRoutesCountApart(t *testing.T) {
	t.Parallel()
	five, three := []throttle.Rule{{Max: 5, Per: time.Hour}}, []throttle.Rule{{Max: 3, Per: time.Hour}}
	api := limitedAPI(t, five, three, "one", "two")
	for i, c := range []struct {
		token, path string
		want        int
	}{
		{"one", "/v1/stats", 200},
		{"one", "/v1/stats", 200},
		{"one", "/v1/stats", 200},
		{"one", "/v1/stats", 429},
		{"two", "/v1/stats", 200},
		{"three", "/v1/stats", 401},
	} {
		if got := ask(t, api, "Bearer "+c.token, c.path); got != c.want {
			t.Errorf("request %d, token %s, %s: status %d, want %d", i, c.token, c.path, got, c.want)
		}
	}
}

// Only one of the tokens opens an API that has some; its documentation is for everybody.
func TestTokens(t *testing.T) {
	t.Parallel()
	api := newAPIWithTokens(t, "first-token", "second-token")
	for authorization, want := range map[string]int{
		"": 401, "Bearer wrong": 401, "Basic first-token": 401, "Bearer": 401, "Bearer first-token2": 401,
		"Bearer first-token": 200, "bearer second-token": 200,
	} {
		if status := ask(t, api, authorization, "/v1/stats"); status != want {
			t.Errorf("Authorization %q: status %d, want %d", authorization, status, want)
		}
	}
	for _, path := range []string{"/openapi.json", "/docs"} {
		if status := ask(t, api, "", path); status != http.StatusOK {
			t.Errorf("%s without a token: status %d", path, status)
		}
	}
}

// limitedAPI is an API with limits.
func limitedAPI(t *testing.T, perCaller, perRoute []throttle.Rule, tokens ...string) http.Handler {
	t.Helper()
	limit, err := httpapi.CallerLimit(&counter{used: map[throttle.Key]int{}}, perCaller, perRoute,
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return newAPIWith(t, &store{}, func(cfg *httpapi.Config) {
		cfg.Tokens, cfg.CallerLimit = secret.NewTokens(tokens...), limit
	})
}

// ask gets a path, with an Authorization unless that is empty.
func ask(t *testing.T, api http.Handler, authorization, path string) (status int) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	response := httptest.NewRecorder()
	api.ServeHTTP(response, request)
	return response.Code
}
