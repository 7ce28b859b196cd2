package httpapi_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/pacer-notify/pacer/internal/feedback"
	"github.com/pacer-notify/pacer/internal/httpapi"
	"github.com/pacer-notify/pacer/internal/secret"
)

// inbox knows one link, good, and counts what is done with it.
type inbox struct {
	out   bool
	away  error
	calls int
	took  string
}

func (i *inbox) look(token string) (feedback.Link, error) {
	if token != "good" {
		return feedback.Link{}, feedback.ErrNoLink
	}
	i.calls++
	return feedback.Link{UserID: "canary-ada", Category: "<b>news</b>"}, i.away
}

func (i *inbox) OptedOut(_ context.Context, token string) (feedback.Link, bool, error) {
	link, err := i.look(token)
	return link, i.out, err
}

func (i *inbox) OptOut(_ context.Context, token string) (feedback.Link, error) {
	link, err := i.look(token)
	i.out = i.out || err == nil
	return link, err
}

func (i *inbox) OptIn(_ context.Context, token string) (feedback.Link, error) {
	link, err := i.look(token)
	i.out = i.out && err != nil
	return link, err
}

func (i *inbox) Take(_ context.Context, message []byte) (feedback.Result, error) {
	i.took = string(message)
	return feedback.Result{Kind: feedback.KindGone, NotificationID: "n1", Devices: []string{"mail"}}, i.away
}

// withInbox is an API with tokens.
func withInbox(t *testing.T, i httpapi.Inbox, metrics prometheus.Registerer) http.Handler {
	t.Helper()
	api, err := httpapi.New(httpapi.Config{
		Inbox: i, Tokens: secret.NewTokens("t"), Version: "test", Log: slog.New(slog.DiscardHandler), Metrics: metrics,
		Host: func(string) bool { return false },
	})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// click makes a request as a browser or a mail provider does: without a token, under the public name.
func click(api http.Handler, method, path, contentType, body string) *httptest.ResponseRecorder {
	request := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
	request.Host = "notify.example.com"
	request.Header.Set("Content-Type", contentType)
	response := httptest.NewRecorder()
	api.ServeHTTP(response, request)
	return response
}

const (
	form     = "application/x-www-form-urlencoded"
	oneClick = "List-Unsubscribe=One-Click"
)

// One click opts out, in both forms that the standard has, and again. A look changes nothing.
func TestUnsubscribe(t *testing.T) {
	t.Parallel()
	const multipart = "--b\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n--b--\r\n"
	const path = "/v1/unsubscribe/good"
	for _, tokens := range []bool{true, false} {
		i := &inbox{}
		api := withInbox(t, i, nil)
		if !tokens { // under a name that such an API does not serve anything else
			var err error
			if api, err = httpapi.New(httpapi.Config{
				Inbox: i, Version: "test", Log: slog.New(slog.DiscardHandler), Host: func(string) bool { return false },
			}); err != nil {
				t.Fatal(err)
			}
		}
		for step, c := range []struct {
			method, contentType, body string
			status                    int
			out                       bool
			says                      string
		}{
			{method: http.MethodGet, status: 200, says: "Unsubscribe from “&lt;b&gt;news&lt;/b&gt;”?"},
			{method: http.MethodHead, status: 200},
			{method: http.MethodPost, contentType: form, body: "a=b", status: 422, says: "List-Unsubscribe=One-Click"},
			{method: http.MethodPost, contentType: "text/plain", body: oneClick, status: 422},
			{method: http.MethodPost, contentType: form, body: oneClick + strings.Repeat("&a=b", 2000), status: 422},
			{method: http.MethodPost, contentType: form, body: oneClick, status: 200, out: true, says: "no more"},
			{method: http.MethodPost, contentType: form, body: oneClick, status: 200, out: true, says: "no more"},
			{method: http.MethodGet, status: 200, out: true, says: "Subscribe again</button>"},
			{method: http.MethodPost, contentType: form, body: "Subscribe=Again", status: 200, says: "subscribed"},
			{
				method: http.MethodPost, contentType: `multipart/form-data; boundary="b"`, body: multipart, status: 200,
				out: true, says: "no more",
			},
			{method: http.MethodDelete, status: 405, out: true},
		} {
			response := click(api, c.method, path, c.contentType, c.body)
			page := response.Body.String()
			if response.Code != c.status || !strings.Contains(page, c.says) || i.out != c.out {
				t.Errorf("step %d: status %d, out %t: %s", step, response.Code, i.out, page)
			}
			if strings.Contains(page, "canary") || strings.Contains(page, "<b>") || strings.Contains(page, "<script") {
				t.Errorf("step %d shows %s", step, page)
			}
			header := response.Header()
			if c.status == 200 && (header.Get("Referrer-Policy") != "no-referrer" ||
				!strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'")) {
				t.Errorf("step %d: the header is %v", step, header)
			}
		}
	}
}

// A link that is none of the deployment's reaches no store, and a store that is away is told.
func TestUnsubscribeFails(t *testing.T) {
	t.Parallel()
	i := &inbox{}
	for name, c := range map[string]struct {
		inbox httpapi.Inbox
		path  string
		want  int
	}{
		"another's link": {inbox: i, path: "/v1/unsubscribe/bad", want: http.StatusNotFound},
		"no link":        {inbox: i, path: "/v1/unsubscribe/", want: http.StatusNotFound},
		"not configured": {path: "/v1/unsubscribe/good", want: http.StatusNotFound},
		"away": {
			inbox: &inbox{away: errors.New("canary")}, path: "/v1/unsubscribe/good",
			want: http.StatusServiceUnavailable,
		},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			response := click(withInbox(t, c.inbox, nil), method, c.path, form, oneClick)
			if response.Code != c.want || strings.Contains(response.Body.String(), "canary") {
				t.Errorf("%s, %s: status %d: %s", name, method, response.Code, response.Body)
			}
			if wait := response.Header().Get("Retry-After"); (wait == "") != (c.want != http.StatusServiceUnavailable) {
				t.Errorf("%s: Retry-After %q", name, wait)
			}
		}
	}
	if i.calls > 0 {
		t.Errorf("%d calls reached the store", i.calls)
	}
}

// What came back needs the token, is bounded, and counts by what it was.
func TestBounces(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	i := &inbox{}
	api := withInbox(t, i, registry)
	post := func(api http.Handler, token, contentType, body string) *httptest.ResponseRecorder {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/email/bounces",
			strings.NewReader(body))
		request.Header.Set("Content-Type", contentType)
		request.Header.Set("Authorization", "Bearer "+token)
		response := httptest.NewRecorder()
		api.ServeHTTP(response, request)
		return response
	}
	for name, c := range map[string]struct {
		inbox                    httpapi.Inbox
		token, contentType, body string
		want                     int
	}{
		"no token":       {inbox: &inbox{}, contentType: "message/rfc822", want: http.StatusUnauthorized},
		"another type":   {inbox: &inbox{}, token: "t", contentType: "text/plain", body: "x", want: http.StatusUnsupportedMediaType},
		"not configured": {token: "t", contentType: "message/rfc822", body: "x", want: http.StatusNotImplemented},
		"away": {
			inbox: &inbox{away: errors.New("canary")}, token: "t", contentType: "message/rfc822", body: "x",
			want: http.StatusServiceUnavailable,
		},
		"too early": {
			inbox: &inbox{away: feedback.ErrUnderWay}, token: "t", contentType: "message/rfc822", body: "x",
			want: http.StatusConflict,
		},
		"too long": {
			inbox: &inbox{}, token: "t", contentType: "message/rfc822", body: strings.Repeat("x", 1<<20+1),
			want: http.StatusRequestEntityTooLarge,
		},
	} {
		response := post(withInbox(t, c.inbox, nil), c.token, c.contentType, c.body)
		if response.Code != c.want || strings.Contains(response.Body.String(), "canary") {
			t.Errorf("%s: status %d: %s", name, response.Code, response.Body)
		}
	}
	response := post(api, "t", "message/rfc822", "Subject: x\r\n\r\ny")
	if want := `{"kind":"gone","notification_id":"n1","devices":["mail"]}`; response.Code != http.StatusOK ||
		strings.TrimSpace(response.Body.String()) != want || i.took != "Subject: x\r\n\r\ny" {
		t.Errorf("status %d: %s", response.Code, response.Body)
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(`# HELP pacer_bounces_total E-mails that came back, by kind.
# TYPE pacer_bounces_total counter
pacer_bounces_total{kind="complaint"} 0
pacer_bounces_total{kind="delayed"} 0
pacer_bounces_total{kind="gone"} 1
pacer_bounces_total{kind="no_report"} 0
pacer_bounces_total{kind="refused"} 0
pacer_bounces_total{kind="unknown"} 0
`), "pacer_bounces_total"); err != nil {
		t.Error(err)
	}
}
