package ops_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/secret"
)

// Contents are for those who may act, and only when they ask. Everybody else is told why they are not shown.
func TestContentsAreForThoseWhoMayAct(t *testing.T) {
	t.Parallel()
	const (
		here, elsewhere = "127.0.0.1:8081", "10.1.2.3:8081"
		private         = "your code is 4711"
		token           = "this needs the ops token (--ops-token, PACER_OPS_TOKEN)"
		nobody          = "contents are shown only on a loopback address, or with --ops-token"
	)
	for _, tt := range []struct {
		name         string
		token, given string // the token that is set, and the one that comes with the request
		local, host  string
		withheld     string
	}{
		{name: "on this machine", local: here, host: here},
		{name: "on this machine, under another's name", local: here, host: "ops.example", withheld: nobody},
		{name: "on this machine, without the token", token: "t", local: here, host: here, withheld: token},
		{name: "on this machine, the token", token: "t", given: "t", local: here, host: here},
		{name: "elsewhere, no token set", local: elsewhere, host: elsewhere, withheld: nobody},
		{name: "elsewhere, no token set, one given", given: "t", local: elsewhere, host: elsewhere, withheld: nobody},
		{name: "elsewhere, no token given", token: "t", local: elsewhere, host: elsewhere, withheld: token},
		{name: "elsewhere, another token", token: "t", given: "u", local: elsewhere, host: elsewhere, withheld: token},
		{name: "elsewhere, the token", token: "t", given: "t", local: elsewhere, host: elsewhere},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := config()
			cfg.Tokens = secret.NewTokens(tt.token)
			found := explanation()
			found.Contents = &desk.Contents{To: "hooks.example/***", Body: private}
			cfg.Desk = &lookups{explanation: found}
			get := func(page string) (int, string) {
				request := asked(t, http.MethodGet, page, tt.local, tt.host)
				if tt.given != "" {
					request.Header.Set("Authorization", "Bearer "+tt.given)
				}
				recorder := httptest.NewRecorder()
				ops.Handler(cfg).ServeHTTP(recorder, request)
				return recorder.Code, recorder.Body.String()
			}
			if code, body := get("/explain/n-1"); code != http.StatusOK || strings.Contains(body, "contents") {
				t.Errorf("contents are shown to those who did not ask: %d %s", code, body)
			}
			for _, page := range []string{"/explain/n-1?contents", "/?q=n-1"} {
				code, body := get(page)
				if code != http.StatusOK || strings.Contains(body, private) != (tt.withheld == "") ||
					!strings.Contains(body, tt.withheld) {
					t.Errorf("%s: %d %s", page, code, body)
				}
			}
			// A search for a text would tell them bit by bit.
			want := http.StatusOK
			switch tt.withheld {
			case token:
				want = http.StatusUnauthorized
			case nobody:
				want = http.StatusForbidden
			}
			for _, page := range []string{"/notifications", "/list.html"} {
				if code, body := get(page + "?text=code"); code != want || code != http.StatusOK &&
					!strings.Contains(body, "a text search reads contents") {
					t.Errorf("a search for a text: %d %s", code, body)
				}
				if code, body := get(page + "?user=ada"); code != http.StatusOK {
					t.Errorf("a list: %d %s", code, body)
				}
			}
		})
	}
}
