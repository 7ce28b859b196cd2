// Package apitest calls pacer's API as pacer asks of its callers: what is refused with 503 is sent again, and what is
// partial is read again. A store that is slow for a moment, as on a busy machine, then fails no test.
package apitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// patience is for how long a request is sent again that was refused; partialPatience, that got a part: some tests
	// read while Redis is away.
	patience        = 5 * time.Minute
	partialPatience = time.Minute
	// pause is the time between two tries. It is shorter than a Retry-After asks for: one test is no crowd.
	pause = 100 * time.Millisecond
)

// Client sends what is refused with 503 and a Retry-After again, until it is not or the request's context ends; after
// five minutes, the refusal is the response. A notification with neither an id nor an idempotency key may then be
// accepted twice: the refused request may have been carried out. Use [Once] where a 503 is expected.
//
// Notifications and users that are partial it reads again for a minute.
var Client = &http.Client{Transport: repeating{Once.Transport}}

// Once sends each request once, on a connection of its own. Tests use it in place of [http.DefaultClient]: when an
// httptest server closes, it ends the connections that the default transport keeps, and with them requests of other
// tests that are about to use one.
var Once = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// repeating is the transport of Client.
type repeating struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (r repeating) RoundTrip(request *http.Request) (*http.Response, error) {
	for begun := time.Now(); ; {
		response, err := r.RoundTripper.RoundTrip(request)
		if err != nil {
			return nil, err
		}
		whole, err := settled(response, time.Since(begun))
		if err != nil {
			response.Body.Close()
			return nil, err
		}
		if whole {
			return response, nil
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
		case <-request.Context().Done(): // this response is all there is
			return response, nil
		}
	}
}

// settled reports whether a response counts that came so long after the first request.
func settled(response *http.Response, after time.Duration) (bool, error) {
	switch request := response.Request; {
	case response.StatusCode == http.StatusServiceUnavailable:
		return response.Header.Get("Retry-After") == "" || after > patience, nil
	case response.StatusCode == http.StatusOK && request.Method == http.MethodGet && after < partialPatience &&
		(strings.HasPrefix(request.URL.Path, "/v1/notifications") || strings.HasPrefix(request.URL.Path, "/v1/users/")):
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return true, err
		}
		response.Body.Close()
		response.Body = io.NopCloser(bytes.NewReader(body))
		var told struct{ Partial bool }
		_ = json.Unmarshal(body, &told) // whatever else comes is for the test
		return !told.Partial, nil
	}
	return true, nil
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
