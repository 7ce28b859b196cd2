package httpsend

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// maxReply is how much of a response is read, in bytes.
const maxReply = 64 << 10

// Finish reads a response to its end, so that the connection can be used again once it is closed. The failure, nil
// when there is none, gets the beginning of it as its Reply, as [push.Reply] makes it.
func Finish(response *http.Response, failure *push.Error, n *notification.Notification, secrets ...string) {
	if failure != nil {
		text, _ := io.ReadAll(io.LimitReader(response.Body, push.ReplyRead)) // what could be read has to do
		failure.Reply = push.Reply(text, n, secrets...)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxReply))
}

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
