package httpapi_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/hosts"
	"github.com/pacer-notify/pacer/internal/httpapi"
)

// An API without tokens answers nothing under a foreign host, and takes nothing from another site's page, whatever is asked
// for. With tokens the token decides.
func TestAPIWithoutTokensIsNotForPagesOfOthers(t *testing.T) {
	t.Parallel()
	s := &store{}
	newAPI := func(tokens ...string) http.Handler {
		api, err := httpapi.New(httpapi.Config{
			Intake: s, Store: s, Throttle: s, Processes: s.Processes, List: s.List, Users: s, Devices: s, HasCategory: func(string) bool { return true },
			Version: "test", Log: slog.New(slog.DiscardHandler), Tokens: tokens, Host: hosts.New("127.0.0.1:8080", []string{"api.example"}).Has,
		})
		if err != nil {
			t.Fatal(err)
		}
		return api
	}
	open, guarded := newAPI(), newAPI("t")
	routes := append(slices.Clip(operations),
		operations[0], operations[0], operations[0])
	for i, path := range []string{"/openapi.json", "/docs", "/nothing"} {
		r := &routes[len(operations)+i]
		r.method, r.path, r.body = http.MethodGet, path, ""
	}
	ask := func(api http.Handler, method, path, contentType, body, host string, header map[string]string) *httptest.ResponseRecorder {
		request := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
		request.Host = host
		request.Header.Set("Content-Type", contentType)
		for name, value := range header {
			request.Header.Set(name, value)
		}
		answer := httptest.NewRecorder()
		api.ServeHTTP(answer, request)
		return answer
	}
	for _, r := range routes {
		for _, c := range []struct {
			api    http.Handler
			host   string
			header map[string]string
			want   int // 0: whatever it answers otherwise
		}{
			{open, "evil.example:8080", nil, http.StatusMisdirectedRequest},
			{open, "evil.example:8080", map[string]string{"Origin": "http://evil.example:8080"}, http.StatusMisdirectedRequest},
			{open, "10.0.0.7:8080", nil, http.StatusMisdirectedRequest},
			{open, "0.0.0.0:8080", nil, http.StatusMisdirectedRequest},
			{open, "localhost:8080", map[string]string{"Origin": "https://evil.example"}, http.StatusForbidden},
			{open, "localhost:8080", map[string]string{"Sec-Fetch-Site": "cross-site"}, http.StatusForbidden},
			{open, "localhost:8080", map[string]string{"Sec-Fetch-Site": "same-origin"}, 0},
			{open, "localhost:8080", nil, 0},
			{open, "[::1]:8080", nil, 0},
			{open, "api.example", nil, 0},
			{guarded, "evil.example:8080", map[string]string{"Authorization": "Bearer t"}, 0},
		} {
			answer := ask(c.api, r.method, r.path, r.contentType, r.body, c.host, c.header)
			want := c.want
			if want == http.StatusForbidden && r.method == http.MethodGet {
				want = 0 // another site's page can't read the answer
			}
			if want == 0 {
				if answer.Code == http.StatusMisdirectedRequest || answer.Code == http.StatusForbidden {
					t.Errorf("%s %s under %s with %v: %d %s", r.method, r.path, c.host, c.header, answer.Code, answer.Body)
				}
				continue
			}
			var problem struct {
				Status int
				Detail string
			}
			if err := json.Unmarshal(answer.Body.Bytes(), &problem); answer.Code != want || err != nil || problem.Status != want ||
				problem.Detail == "" || answer.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s %s under %s with %v: %d %s, want the problem %d", r.method, r.path, c.host, c.header, answer.Code, answer.Body, want)
			}
		}
	}
}
