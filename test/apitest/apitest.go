// Package apitest calls pacer's API as pacer asks of its callers: what is refused with 503 is sent again. A store that
// is slow for a moment, as on a busy machine, then fails no test.
package apitest

import (
	"fmt"
	"net/http"
	"time"
)

const (
	// patience is for how long a request is sent again.
	patience = 5 * time.Minute
	// pause is the time between two tries. It is shorter than a Retry-After asks for: one test is no crowd.
	pause = 100 * time.Millisecond
)

// Client sends what is refused with 503 and a Retry-After again, until it is not or the request's context ends; after
// five minutes, the refusal is the response. A notification with neither an id nor an idempotency key may then be
// accepted twice: the refused request may have been carried out. Use another client where a 503 is expected.
var Client = &http.Client{Transport: repeating{http.DefaultTransport}}

// repeating is the transport of Client.
type repeating struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (r repeating) RoundTrip(request *http.Request) (*http.Response, error) {
	for deadline := time.Now().Add(patience); ; {
		response, err := r.RoundTripper.RoundTrip(request)
		if err != nil || response.StatusCode != http.StatusServiceUnavailable ||
			response.Header.Get("Retry-After") == "" || time.Now().After(deadline) {
			return response, err
		}
		again, err := anew(request)
		if err != nil {
			response.Body.Close()
			return nil, err
		}
		select {
		case <-time.After(pause):
			response.Body.Close()
			request = again
		case <-request.Context().Done(): // the refusal is all there is
			return response, nil
		}
	}
}

// anew is a request with its body from the start.
func anew(request *http.Request) (*http.Request, error) {
	again := request.Clone(request.Context())
	if request.Body == nil || request.Body == http.NoBody {
		return again, nil
	}
	if request.GetBody == nil {
		return nil, fmt.Errorf("send %s %s again after 503: its body can be read only once", request.Method, request.URL)
	}
	body, err := request.GetBody()
	again.Body = body
	return again, err
}
