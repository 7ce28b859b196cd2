package webpush

import (
	"net/http"
	"strconv"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

// judge says what an answer of a push service means (RFC 8030); nil for delivered.
func judge(response *http.Response) *push.Error {
	status := response.StatusCode
	failure := &push.Error{
		Class: push.Permanent, Code: strconv.Itoa(status),
		RetryAfter: httpsend.RetryAfter(response.Header.Get("Retry-After"), time.Now()),
	}
	switch {
	case status >= 200 && status < 300:
		return nil
	case status == http.StatusNotFound || status == http.StatusGone:
		failure.Class = push.TargetGone
	case status == http.StatusTooManyRequests:
		failure.Class = push.Throttled
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		failure.Class = push.CredentialsRefused // by this push service: another may take them
	case status == http.StatusRequestTimeout || status >= 500:
		failure.Class = push.Transient
	}
	return failure
}
