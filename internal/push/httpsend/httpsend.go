// Package httpsend is what the channels over HTTP share: connections that can be closed all at once, what a response or
// a failed call means, and when a provider wants to be called again.
package httpsend

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

// MaxRetryAfter is the longest that a provider may ask to be left alone.
const MaxRetryAfter = time.Hour

// RetryAfter reads the header in both its forms: seconds, or a date. Anything else, and a date in the past, gives 0.
func RetryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if value == "" { // nearly always: to find out that it is no date costs more than all else here
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(MaxRetryAfter/time.Second) {
			return MaxRetryAfter
		}
		return time.Duration(seconds) * time.Second
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(0, date.Sub(now)), MaxRetryAfter)
}

// Trace notes whether a request got a connection. Another goroutine writes it there, and a cancelled call does not
// always wait for that goroutine. So only without a connection is it sure that nothing was sent.
type Trace struct{ connected atomic.Bool }

// Attach returns the context to make the call with.
func (t *Trace) Attach(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { t.connected.Store(true) },
	})
}

// Classify says what a request without a response means. The error's own text may hold the target's URL, with secrets
// in it, so only a word of it is kept.
func (t *Trace) Classify(err error) *push.Error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if proxied, ok := errors.AsType[*ProxyError](err); ok {
		return proxied.failure()
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

// isForbidden reports whether the guarded dialer refused the address.
func isForbidden(err error) bool {
	_, forbidden := errors.AsType[*egress.ForbiddenError](err)
	return forbidden
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}
