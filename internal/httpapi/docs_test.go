package httpapi_test

import (
	"html"
	"net/http"
	"strings"
	"testing"
)

// The page shows what a caller needs to write a request: fields, which are required, what they can be, and an example
// of the request and of the response.
func TestDocumentationPage(t *testing.T) {
	t.Parallel()
	page := call(newAPI(t, &store{}), http.MethodGet, "/docs", "", nil).Body.String()
	_, post, found := strings.Cut(page, `<h2 id="accept-notification">`)
	if !found {
		t.Fatalf("the page does not show the operation:\n%s", page)
	}
	post, _, _ = strings.Cut(html.UnescapeString(post), "<h2 ")
	for _, want := range []string{
		"Request: <code>application/json</code>",
		"<code>user_id</code> <strong>required</strong>",
		"one of critical, high, normal, low; default normal",
		"at most 64 characters; matches ^[A-Za-z0-9._:-]+$",
		`"title": "Your order is on its way"`, // of the request
		`"status": "queued"`,                  // of the response
		`<a href="#ErrorModel">ErrorModel</a>`,
		"Idempotency-Key",
	} {
		if !strings.Contains(post, want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	for _, want := range []string{
		`pacer API <small>unreleased</small>`,
		"Request: <code>application/x-ndjson</code>",
		`{"id": "order-9", "title": "For nobody"}`,
		`<h3 id="BulkResult">BulkResult</h3>`,
		`list of <a href="#BulkResult">BulkResult</a>`,
	} {
		if !strings.Contains(html.UnescapeString(page), want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	if strings.Contains(page, "http://") || strings.Contains(page, "<script") {
		t.Error("the page asks for something of another host, or runs a script")
	}
}
