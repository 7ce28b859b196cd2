package apns

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
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

// reasons has the class of the service's reasons, where the status alone does not tell. configured has the reasons that
// are about the topic. They mean wrong settings only if the topic is the configured one, since an override can have its
// own.
var (
	reasons = map[string]push.Class{
		apns2.ReasonBadDeviceToken: push.TargetGone, apns2.ReasonUnregistered: push.TargetGone,
		"ExpiredToken":          push.TargetGone,
		apns2.ReasonIdleTimeout: push.Transient, apns2.ReasonTooManyProviderTokenUpdates: push.Throttled,
		apns2.ReasonExpiredProviderToken: push.CredentialsRefused,
		apns2.ReasonInvalidProviderToken: push.CredentialsRefused,
		apns2.ReasonMissingProviderToken: push.CredentialsRefused, apns2.ReasonBadCertificate: push.CredentialsRefused,
		apns2.ReasonBadCertificateEnvironment: push.CredentialsRefused, apns2.ReasonForbidden: push.CredentialsRefused,
		"UnrelatedKeyIdInToken": push.CredentialsRefused, "BadEnvironmentKeyIdInToken": push.CredentialsRefused,
	}
	configured = map[string]bool{
		apns2.ReasonBadTopic: true, apns2.ReasonMissingTopic: true, apns2.ReasonTopicDisallowed: true,
	}
)

// classify says what a response means; nil is delivered. ownTopic is true when the topic is the configured one. Of the
// response's text only known reasons become part of the code.
func classify(seen *observed, response *apns2.Response, ownTopic bool) *push.Error {
	status := seen.status
	if status == http.StatusOK {
		return nil
	}
	failure := &push.Error{Class: push.Permanent, Code: strconv.Itoa(status), RetryAfter: seen.retryAfter}
	switch {
	case status == http.StatusGone:
		failure.Class = push.TargetGone
	case status == http.StatusTooManyRequests:
		failure.Class = push.Throttled
	case status >= 500:
		failure.Class = push.Transient
	}
	reason := ""
	if response != nil {
		reason = response.Reason
	}
	if class, known := reasons[reason]; known {
		failure.Class = class
		failure.Code += "." + reason
	} else if configured[reason] {
		failure.Code += "." + reason
		if ownTopic {
			failure.Class = push.CredentialsRefused
		}
	}
	if failure.Class == push.TargetGone && response != nil && response.Timestamp.Unix() > 0 {
		failure.GoneSince = response.Timestamp.Time
	}
	return failure
}
