package app_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Each id that is accepted can be read and deleted at its own path, percent-encoded as every client does it.
func TestEveryAcceptedIDFitsIntoAPath(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, onRedis, contractPolicy, 1)
	ids := rapid.OneOf(
		rapid.SampledFrom([]string{
			".", "..", "...", "/", "//", "../..", "a/../b", "./", "%2e%2e", "%", "?a#b", "bulk", " ", "a;b", "{user}",
			"a\\b", "\u2028", "ü", "\u202e", "+", ":", "a\nb", "\x7f", "\u0085",
		}),
		rapid.StringN(1, 64, 256), rapid.StringMatching(`[A-Za-z0-9._:-]{1,4}`),
	)
	rapid.Check(t, func(rt *rapid.T) {
		id := ids.Draw(rt, "id")
		in := url.PathEscape(id)
		inBody, _ := json.Marshal(map[string]string{
			"id": id, "user_id": "ada", "channel": "log",
			"send_at": time.Now().Add(time.Hour).Format(time.RFC3339),
		})
		endpoint, _ := json.Marshal(map[string]string{"id": id, "url": "http://127.0.0.1:1/" + url.QueryEscape(id)})
		ofUser, _ := json.Marshal(map[string]string{"user_id": id, "channel": "log"})
		device := []byte(`{"channel": "webhook", "to": "http://127.0.0.1:1/"}`)
		for _, kind := range []struct {
			write, at, path string
			body            []byte
		}{
			{http.MethodPost, "/v1/webhook-endpoints", "/v1/webhook-endpoints/" + in, endpoint},
			{http.MethodPut, "/v1/users/ada/devices/" + in, "/v1/users/ada/devices/" + in, device},
			{http.MethodPut, "/v1/users/" + in + "/devices/d", "/v1/users/" + in + "/devices/d", device},
			{http.MethodPut, "/v1/users/" + in + "/preferences", "/v1/users/" + in + "/preferences", []byte(`{}`)},
			{http.MethodPost, "/v1/notifications", "/v1/users/" + in + "/throttle", ofUser},
			{http.MethodPost, "/v1/notifications", "/v1/notifications/" + in, inBody},
		} {
			if status := d.call(kind.write, kind.at, kind.body, nil, nil); status >= http.StatusMultipleChoices {
				continue // refused
			}
			for _, method := range []string{http.MethodGet, http.MethodDelete} {
				status := d.call(method, kind.path, nil, nil, nil)
				if status >= http.StatusMultipleChoices && status != http.StatusConflict { // a repeat that is cancelled
					rt.Fatalf("%q is accepted, and %s %s returns %d", id, method, kind.path, status)
				}
			}
		}
	})
}
