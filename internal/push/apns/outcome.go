package apns

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/sideshow/apns2"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

// maxReply is how much of an answer is read.
const maxReply = 64 << 10

// answer is what the library does not pass on.
type answer struct {
	status     int
	retryAfter time.Duration
}

type answerKey struct{}

// observer is a transport that notes each answer where its call's context says.
type observer struct{ transport http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (o *observer) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := o.transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if seen, ok := request.Context().Value(answerKey{}).(*answer); ok {
		seen.status = response.StatusCode
		seen.retryAfter = httpsend.RetryAfter(response.Header.Get("Retry-After"), time.Now())
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(response.Body, maxReply), response.Body}
	return response, nil
}

// expiredToken is the code of a refusal that a new token mends.
const expiredToken = "403.ExpiredProviderToken"

// reasons gives the class of what the service says in words, where the status alone does not tell. What is wrong with
// the configuration is in configured, since an override can bring a topic of its own.
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

// classify says what an answer means; ownTopic is true when the topic is the configured one. The answer's own words are
// kept only where they are known ones.
func classify(seen *answer, response *apns2.Response, ownTopic bool) *push.Error {
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
