package httpapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A body may have exactly as many bytes as the document says, and not one more; the refusal says how many.
func TestABodyMayBeAsLongAsIsSaid(t *testing.T) {
	t.Parallel()
	api := newAPI(t, &store{})
	const asJSON, lines, one = "application/json", "application/x-ndjson", `{"user_id":"ada"}`
	for _, c := range []struct {
		method, path, contentType, body, filler string
		most                                    int
	}{
		{"POST", "/v1/notifications", asJSON, one, " ", 2 << 20},
		{"POST", "/v1/notifications/bulk", lines, one, "\n", 16 << 20},
		{"POST", "/v1/preferences/bulk", lines, one, "\n", 4 << 20},
		{"PUT", "/v1/users/ada/preferences", asJSON, `{}`, " ", 1 << 20},
		{"PUT", "/v1/users/ada/devices/phone", asJSON, `{"channel":"webhook","to":"https://example.com"}`, " ", 1 << 16},
		{"POST", "/v1/webhook-endpoints", asJSON, `{"url":"https://example.com"}`, " ", 1 << 16},
		{"POST", "/v1/email/bounces", "message/rfc822", "Subject: x\r\n\r\n", "x", 1 << 20},
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

// A body that is malformed, or too long, is refused whole, with a problem.
func TestMalformedBodiesAreRefusedWhole(t *testing.T) {
	t.Parallel()
	const one = `{"user_id":"ada","channel":"log"}`
	typed := func(media string) http.Header { return http.Header{"Content-Type": {media}} }
	json, lines := typed("application/json"), typed("application/x-ndjson")
	for name, c := range map[string]struct {
		path, body string
		header     http.Header
		status     int
	}{
		"Empty":        {header: json, status: 400},
		"NoJSON":       {body: "{", header: json, status: 400},
		"NoObject":     {body: `["ada"]`, header: json, status: 400},
		"Trailing":     {body: one + "{}", header: json, status: 400},
		"NoUTF8":       {body: "{\"user_id\":\"a\xff\",\"channel\":\"log\"}", header: json, status: 400},
		"Media":        {body: one, header: typed("text/plain"), status: 415},
		"BulkEmpty":    {path: "/bulk", header: lines, status: 400},
		"BulkNoArray":  {path: "/bulk", body: `{"user_id":"ada"}`, header: json, status: 400},
		"BulkBroken":   {path: "/bulk", body: "[" + one + ",", header: json, status: 400},
		"BulkTooMany":  {path: "/bulk", body: strings.Repeat(one+"\n", 10_001), header: lines, status: 413},
		"BulkMedia":    {path: "/bulk", body: "[]", header: typed("application/xml"), status: 415},
		"BulkResults":  {path: "/bulk?results=some", body: "[" + one + "]", header: json, status: 422},
		"WrongMethod":  {path: "/n1", header: json, status: 405},
		"NowhereAtAll": {path: "s", header: json, status: 404},
		"Encoded": {
			body: one, status: 415,
			header: http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}},
		},
		"KeyTwice": {
			body: one, status: 422,
			header: http.Header{"Content-Type": json["Content-Type"], "Idempotency-Key": {"a", "b"}},
		},
		"BulkKey": {
			path: "/bulk", body: one, status: 422,
			header: http.Header{"Content-Type": lines["Content-Type"], "Idempotency-Key": {"a"}},
		},
		"TwoKeys": {
			body:   `{"user_id":"ada","channel":"log","idempotency_key":"a"}`,
			header: http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {"b"}}, status: 422,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/notifications"+c.path,
				strings.NewReader(c.body))
			request.Header = c.header
			response := httptest.NewRecorder()
			newAPI(t, &store{}).ServeHTTP(response, request)
			if response.Code != c.status || response.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("status %d, %s, want the problem %d", response.Code, response.Body, c.status)
			}
		})
	}
}

// No operation takes a document of which encoding/json would change or ignore a part.
func TestEveryDocumentIsReadStrictly(t *testing.T) {
	t.Parallel()
	api := newAPI(t, &store{})
	documents := append(slices.Clone(operations), operation{
		method: "POST", path: "/v1/preferences/bulk", contentType: "application/json", body: `[{"user_id":"ada"}]`,
	}, operation{
		method: "POST", path: "/v1/webhook-endpoints/e/rotate", contentType: "application/json",
		body: `{"signing":"hmac"}`,
	})
	text, member := regexp.MustCompile(`"([^"]*)"`), regexp.MustCompile(`"([a-z_]+)":`)
	for _, o := range documents {
		if !strings.Contains(o.contentType, "json") {
			continue
		}
		twice := member.ReplaceAllString(o.body, `"$1":null,"$1":`)
		for kind, body := range map[string]string{
			"is given twice": twice, "half of a character": text.ReplaceAllString(o.body, `"$1\ud83d"`),
			"not valid UTF-8": strings.Replace(o.body, `":"`, "\":\"\xff", 1),
			"is not a field":  strings.ReplaceAll(strings.ToUpper(o.body), "NULL", "null"),
		} {
			if body == o.body {
				continue
			}
			response := call(api, o.method, o.path, o.contentType, strings.NewReader(body))
			said := response.Body.String()
			if response.Code < 400 && !strings.Contains(said, `"rejected":1`) || !strings.Contains(said, kind) {
				t.Errorf("%s %s %s: %d %s, want it refused: %s", o.method, o.path, body, response.Code, said, kind)
			}
		}
	}
}
