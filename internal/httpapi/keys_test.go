package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/httpapi"
)

// Every page may read the public key, without a token: it goes to every browser that subscribes.
func TestTheKeyForBrowsersIsPublic(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		channels []httpapi.Channel
		want     int
		says     string
	}{
		{
			name: "configured", channels: []httpapi.Channel{{Name: "log"}, {Name: "webpush", PublicKey: "BMy"}},
			want: http.StatusOK, says: `{"public_key":"BMy"}`,
		},
		{
			name: "not configured", channels: []httpapi.Channel{{Name: "webpush"}}, want: http.StatusNotFound,
			says: "dispatcher vapid generate",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			api, err := httpapi.New(httpapi.Config{Channels: tc.channels, Tokens: []string{"t"}, Version: "test"})
			if err != nil {
				t.Fatal(err)
			}
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/webpush/key", http.NoBody)
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
