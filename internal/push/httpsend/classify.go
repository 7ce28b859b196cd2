package httpsend

import (
	"net/http"
	"strconv"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
)

// Classify says what the status of a response means by itself; nil is delivered. A channel whose provider says more
// looks further.
func Classify(response *http.Response) *push.Error {
	status := response.StatusCode
	failure := &push.Error{
		Code:       strconv.Itoa(status),
		RetryAfter: RetryAfter(response.Header.Get("Retry-After"), time.Now()),
	}
	switch {
	case status >= 200 && status < 300:
		return nil
	case status == http.StatusNotFound || status == http.StatusGone:
		failure.Class = push.TargetGone
	case status == http.StatusTooManyRequests:
		failure.Class = push.Throttled
	case status == http.StatusRequestTimeout || status == http.StatusTooEarly || status >= 500:
		failure.Class = push.Transient
	default: // redirects, which are not followed, and refusals
		failure.Class = push.Permanent
	}
	return failure
}
