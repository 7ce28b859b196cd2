package webhook

import (
	"net/http"
	"strconv"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

// judge says what an answer means.
func judge(response *http.Response) error {
	status := response.StatusCode
	failure := &push.Error{
		Code:       strconv.Itoa(status),
		RetryAfter: httpsend.RetryAfter(response.Header.Get("Retry-After"), time.Now()),
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
