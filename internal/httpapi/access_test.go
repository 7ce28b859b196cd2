package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/httpapi"
	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/settings"
)

// newAPIWithTokens makes an API that is served under its own names.
func newAPIWithTokens(t *testing.T, tokens ...string) http.Handler {
	t.Helper()
	return newAPIWith(t, &store{}, func(cfg *httpapi.Config) {
		cfg.Tokens = secret.NewTokens(tokens...)
		cfg.Host = settings.NewHosts("127.0.0.1:8080", []string{"api.example"}).Has
	})
}

// An API without tokens serves nothing under a foreign host, and accepts nothing from another site's page, whatever the
// request. With tokens, the token decides.
func TestAPIWithoutTokensIsNotForPagesOfOthers(t *testing.T) {
	t.Parallel()
	open, withToken := newAPIWithTokens(t), newAPIWithTokens(t, "t")
	requests := slices.Clone(operations)
	for _, path := range []string{"/openapi.json", "/docs", "/nothing"} {
		requests = append(requests, operation{method: http.MethodGet, path: path, template: path})
	}
	for _, tt := range []struct {
		name         string
		api          http.Handler
		host         string
		header, text string
		want         int // 0: anything but these two
	}{
		{name: "foreign name", api: open, host: "evil.example:8080", want: http.StatusMisdirectedRequest},
		{
			name: "foreign name and origin", api: open, host: "evil.example:8080",
			header: "Origin", text: "http://evil.example:8080", want: http.StatusMisdirectedRequest,
		},
		{name: "foreign address", api: open, host: "10.0.0.7:8080", want: http.StatusMisdirectedRequest},
		{name: "no address", api: open, host: "0.0.0.0:8080", want: http.StatusMisdirectedRequest},
		{
			name: "foreign origin", api: open, host: "localhost:8080",
			header: "Origin", text: "https://evil.example", want: http.StatusForbidden,
		},
		{
			name: "another site", api: open, host: "localhost:8080",
			header: "Sec-Fetch-Site", text: "cross-site", want: http.StatusForbidden,
		},
		{name: "own page", api: open, host: "localhost:8080", header: "Sec-Fetch-Site", text: "same-origin"},
		{name: "localhost", api: open, host: "localhost:8080"},
		{name: "loopback", api: open, host: "[::1]:8080"},
		{name: "allowed name", api: open, host: "api.example"},
		{
			name: "foreign name, with the token", api: withToken, host: "evil.example:8080",
			header: "Authorization", text: "Bearer t",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, r := range requests {
				request := httptest.NewRequestWithContext(t.Context(), r.method, r.path, strings.NewReader(r.body))
				request.Host = tt.host
				request.Header.Set("Content-Type", r.contentType)
				if tt.header != "" {
					request.Header.Set(tt.header, tt.text)
				}
				response := httptest.NewRecorder()
				tt.api.ServeHTTP(response, request)
				want := tt.want
				if want == http.StatusForbidden && r.method == http.MethodGet {
					want = 0 // another site's page can't read the response
				}
				wantAccess(t, r, response, want)
			}
		})
	}
}

// wantAccess wants the problem with this status; 0 wants no refusal.
func wantAccess(t *testing.T, r operation, response *httptest.ResponseRecorder, want int) {
	t.Helper()
	if want == 0 {
		if response.Code == http.StatusMisdirectedRequest || response.Code == http.StatusForbidden {
			t.Errorf("%s %s: %d %s, want it served", r.method, r.path, response.Code, response.Body)
		}
		return
	}
	var problem struct {
		Status int
		Detail string
	}
	err := json.Unmarshal(response.Body.Bytes(), &problem)
	if err != nil || response.Code != want || problem.Status != want || problem.Detail == "" ||
		response.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s %s: %d %s, want the problem %d", r.method, r.path, response.Code, response.Body, want)
	}
}
