package apns

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"github.com/sideshow/apns2"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

// maxReply is how much of a response is read, in bytes.
const maxReply = 64 << 10

// observed is what the library does not report of a response.
type observed struct {
	status     int
	retryAfter time.Duration
	reply      bytes.Buffer // what was read of it, unless it reports a delivery
}

// observedKey is where the context of a call holds its [observed].
type observedKey struct{}

// observer is a transport that fills in the [observed] in the context of each call.
type observer struct{ transport http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (o *observer) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := o.transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	httpsend.Hurry(request.Context(), response)
	body := io.LimitReader(response.Body, maxReply)
	if seen, ok := request.Context().Value(observedKey{}).(*observed); ok {
		seen.status = response.StatusCode
		seen.retryAfter = httpsend.RetryAfter(response.Header.Get("Retry-After"), time.Now())
		if seen.reply.Reset(); seen.status != http.StatusOK {
			body = io.TeeReader(body, &seen.reply)
		}
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{body, response.Body}
	return response, nil
}

// expiredToken is the code of a refusal after which a new token helps.
const expiredToken = "403.ExpiredProviderToken"

// classify says what a response means; nil is delivered. own is true when the topic is the configured one. Of the
// response's text only known reasons become part of the code.
func classify(seen *observed, response *apns2.Response, own bool) *push.Error {
	read := push.Response{Status: seen.status, RetryAfter: seen.retryAfter}
	if response != nil {
		read.Reason = response.Reason
	}
	if own {
		read.Conditions = []string{ownTopic}
	}
	failure := responses.Read(read)
	if failure != nil && failure.Class == push.TargetGone && response != nil && response.Timestamp.Unix() > 0 {
		failure.GoneSince = response.Timestamp.Time
	}
	return failure
}
