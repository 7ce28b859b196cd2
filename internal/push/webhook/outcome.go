package webhook

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pacer-notify/pacer/internal/egress"
	"github.com/pacer-notify/pacer/internal/push"
)

// maxRetryAfter is how long a target may ask to be left alone.
const maxRetryAfter = time.Hour

// judge says what an answer means.
func judge(response *http.Response) error {
	status := response.StatusCode
	failure := &push.Error{Code: strconv.Itoa(status), RetryAfter: retryAfter(response.Header.Get("Retry-After"), time.Now())}
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

// retryAfter reads the header in both its forms: seconds, or a date. What is neither, or lies in the past, counts as not
// said.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if value != "" && strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(maxRetryAfter/time.Second) {
			return maxRetryAfter
		}
		return time.Duration(seconds) * time.Second
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(0, date.Sub(now)), maxRetryAfter)
}

// tracer notices whether a request was given a connection. What becomes of it there is written by another goroutine, and a
// call that is cancelled doesn't always wait for that: only without a connection is it sure that nothing went out.
type tracer struct{ connected atomic.Bool }

func (t *tracer) attach(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { t.connected.Store(true) }})
}

// classify says what a request without an answer means. The error's own text may hold the target, with all that producers
// put into a URL, so only a word of it is kept.
func (t *tracer) classify(err error) *push.Error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	failure := &push.Error{Class: push.Transient, Code: "connection", Unsent: !t.connected.Load()}
	var dns *net.DNSError
	switch {
	case isForbidden(err):
		return &push.Error{Class: push.Permanent, Code: "forbidden_address", Unsent: true, Err: err}
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
		failure.Code = "timeout"
	case errors.Is(err, context.Canceled):
		failure.Code = "cancelled"
	case errors.As(err, &dns):
		failure.Code = "dns"
	case errors.Is(err, syscall.ECONNREFUSED):
		failure.Code = "connection_refused"
	}
	if t.connected.Load() {
		failure.Class = push.Ambiguous
	}
	return failure
}

func isForbidden(err error) bool {
	_, forbidden := errors.AsType[*egress.ForbiddenError](err)
	return forbidden
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}
