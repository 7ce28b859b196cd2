package httpapi_test

import (
	"html"
	"net/http"
	"strings"
	"testing"
)

// The page shows every operation, and for each what a caller needs to write a request: fields, which are required, what
// they can be, and an example of the request and of the response. It needs nothing else.
func TestDocumentationPage(t *testing.T) {
	t.Parallel()
	response := call(newAPI(t, &store{}), http.MethodGet, "/docs", "", nil)
	page := html.UnescapeString(response.Body.String())
	_, post, _ := strings.Cut(page, `<h3 id="accept-notification">`)
	post, _, _ = strings.Cut(post, "<h3 ")
	for _, want := range []string{
		"Request: <code>application/json</code>",
		"<code>user_id</code> <strong>required</strong>",
		"one of critical, high, normal, low; default normal",
		"at most 64 characters; matches ^[A-Za-z0-9._:-]+$",
		"curl -sS 'http://127.0.0.1:8080/v1/notifications' \\\n  -H 'Content-Type: application/json' \\\n  -d '{\n",
		`"title": "Your order is on its way"`, // of the request
		`"status": "queued"`,                  // of the response
		`<a href="#ErrorModel">ErrorModel</a>`,
		"Idempotency-Key",
	} {
		if !strings.Contains(post, want) {
			t.Errorf("the operation does not show %q", want)
		}
	}
	for _, o := range operations {
		if !strings.Contains(page, o.method+" "+o.template) {
			t.Errorf("the page does not show %s %s", o.method, o.template)
		}
	}
	for _, foreign := range []string{"<script", "src=", "@import", "//cdn", "url("} {
		if strings.Contains(response.Body.String(), foreign) {
			t.Errorf("the page holds %q", foreign)
		}
	}
	if policy := response.Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") {
		t.Errorf("content security policy %q", policy)
	}
}
