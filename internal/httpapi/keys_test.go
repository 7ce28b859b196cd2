package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/httpapi"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/secret"
)

// Every page may read the public key, without a token: it goes to every browser that subscribes.
func TestTheKeyForBrowsersIsPublic(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		keys  map[notification.Channel]string
		query string
		want  int
		says  string
	}{
		{
			name: "configured", keys: map[notification.Channel]string{"webpush": "BMy"},
			want: http.StatusOK, says: `{"public_key":"BMy"}`,
		},
		{name: "not configured", want: http.StatusNotFound, says: "dispatcher vapid generate"},
		{
			name: "of a sender with a name", query: "?channel=webpush:news", want: http.StatusOK,
			keys: map[notification.Channel]string{"webpush:news": "BNews"}, says: `{"public_key":"BNews"}`,
		},
		{
			name: "of a sender that there is not", query: "?channel=webpush:none", want: http.StatusNotFound,
			keys: map[notification.Channel]string{"webpush": "BMy"}, says: `there is no Web Push channel \"webpush:none\"`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			api, err := httpapi.New(httpapi.Config{
				PublicKey: func(channel notification.Channel) string { return tc.keys[channel] },
				Tokens:    secret.NewTokens("t"), Version: "test",
			})
			if err != nil {
				t.Fatal(err)
			}
			url := "/v1/webpush/key" + tc.query
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
			request.Header.Set("Origin", "https://shop.example")
			response := httptest.NewRecorder()
			api.ServeHTTP(response, request)
			if response.Code != tc.want || !strings.Contains(response.Body.String(), tc.says) ||
				!json.Valid(response.Body.Bytes()) {
				t.Errorf("status %d: %s", response.Code, response.Body)
			}
			if origin := response.Header().Get("Access-Control-Allow-Origin"); tc.want == http.StatusOK && origin != "*" {
				t.Errorf("pages of %q may read it", origin)
			}
		})
	}
}
