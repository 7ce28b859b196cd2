package apitest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/test/apitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What is refused for now is sent again, whole; every other response is the one that the test gets.
func TestClient(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first      int // the status of the first two responses; the third is 202
		retryAfter string
		status     int
		requests   int32
	}{
		"accepted":                      {http.StatusAccepted, "", http.StatusAccepted, 1},
		"refused for now":               {http.StatusServiceUnavailable, "1", http.StatusAccepted, 3},
		"refused, with no word of when": {http.StatusServiceUnavailable, "", http.StatusServiceUnavailable, 1},
		"too many requests":             {http.StatusTooManyRequests, "1", http.StatusTooManyRequests, 1},
		"a bad request":                 {http.StatusBadRequest, "", http.StatusBadRequest, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if body, err := io.ReadAll(r.Body); err != nil || string(body) != "hello" {
					t.Errorf("the body is %q, %v", body, err)
				}
				status := http.StatusAccepted
				if requests.Add(1) <= 2 {
					status = c.first
				}
				if c.retryAfter != "" {
					w.Header().Set("Retry-After", c.retryAfter)
				}
				w.WriteHeader(status)
			}))
			defer server.Close()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL,
				strings.NewReader("hello"))
			if err != nil {
				t.Fatal(err)
			}
			response, err := apitest.Client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != c.status || requests.Load() != c.requests {
				t.Errorf("status %d after %d requests, want %d after %d",
					response.StatusCode, requests.Load(), c.status, c.requests)
			}
		})
	}
}

// One whose time is over is not sent again.
func TestClientEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 2 {
			cancel()
		}
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := apitest.Client.Do(request)
	if err == nil {
		response.Body.Close()
	}
	if requests.Load() != 2 {
		t.Errorf("%d requests, %v", requests.Load(), err)
	}
}

// What is partial is read again, until it is whole.
func TestClientReadsAgainWhatIsPartial(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"id":"n1","partial":%t}`, requests.Add(1) <= 2)
	}))
	defer server.Close()
	for path, want := range map[string]string{
		"/v1/stats":            `{"id":"n1","partial":true}`,
		"/v1/notifications/n1": `{"id":"n1","partial":false}`,
	} {
		requests.Store(0)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := apitest.Client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || string(body) != want {
			t.Errorf("%s is read as %s, %v", path, body, err)
		}
	}
}
