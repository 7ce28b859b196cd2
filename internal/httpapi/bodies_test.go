package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A body may have exactly as many bytes as the document says, and not one more; the refusal says how many.
func TestABodyMayBeAsLongAsIsSaid(t *testing.T) {
	t.Parallel()
	api := newAPI(t, &store{})
	for _, c := range []struct {
		method, path, contentType, body, filler string
		most                                    int
	}{
		{
			method: "POST", path: "/v1/notifications", contentType: "application/json",
			body: `{"user_id":"ada"}`, filler: " ", most: 2 << 20,
		},
		{
			method: "POST", path: "/v1/notifications/bulk", contentType: "application/x-ndjson",
			body: `{"user_id":"ada"}`, filler: "\n", most: 16 << 20,
		},
		{
			method: "POST", path: "/v1/preferences/bulk", contentType: "application/x-ndjson",
			body: `{"user_id":"ada"}`, filler: "\n", most: 4 << 20,
		},
		{
			method: "PUT", path: "/v1/users/ada/preferences", contentType: "application/json", body: `{}`,
			filler: " ", most: 1 << 20,
		},
		{
			method: "PUT", path: "/v1/users/ada/devices/phone", contentType: "application/json",
			body: `{"channel":"webhook","to":"https://example.com"}`, filler: " ", most: 1 << 16,
		},
		{
			method: "POST", path: "/v1/webhook-endpoints", contentType: "application/json",
			body: `{"url":"https://example.com"}`, filler: " ", most: 1 << 16,
		},
		{
			method: "POST", path: "/v1/email/bounces", contentType: "message/rfc822",
			body: "Subject: x\r\n\r\n", filler: "x", most: 1 << 20,
		},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			t.Parallel()
			body := c.body + strings.Repeat(c.filler, c.most-len(c.body))
			response := call(api, c.method, c.path, c.contentType, strings.NewReader(body))
			if response.Code >= http.StatusMultipleChoices {
				t.Errorf("%d bytes: status %d: %s", c.most, response.Code, response.Body)
			}
			response = call(api, c.method, c.path, c.contentType, strings.NewReader(body+c.filler))
			says := fmt.Sprintf("may have at most %d bytes", c.most)
			if response.Code != http.StatusRequestEntityTooLarge ||
				!strings.Contains(response.Body.String(), says) {
				t.Errorf("%d bytes: status %d: %s, want %s", c.most+1, response.Code, response.Body, says)
			}
		})
	}
}
