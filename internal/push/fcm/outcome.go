package fcm

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

// unauthenticated is the code of a refusal after which a new token helps.
const unauthenticated = "401"

// The service's error codes, in the detail of the type FcmError.
const (
	codeUnregistered   = "UNREGISTERED"
	codeSenderMismatch = "SENDER_ID_MISMATCH"
	codeThirdParty     = "THIRD_PARTY_AUTH_ERROR"
	codeQuota          = "QUOTA_EXCEEDED"
	codeInvalid        = "INVALID_ARGUMENT"
	codeInternal       = "INTERNAL"
	codeUnavailable    = "UNAVAILABLE"
)

// known are the codes that may appear in logs and metrics.
var known = map[string]bool{
	codeUnregistered: true, codeSenderMismatch: true, codeThirdParty: true, codeQuota: true, codeInvalid: true,
	codeInternal: true, codeUnavailable: true,
}

// reply is the body of a response that reports an error.
type reply struct {
	Error struct {
		Details []detail
	}
}

type detail struct {
	Type            string `json:"@type"`
	ErrorCode       string
	RetryDelay      string
	Violations      []struct{ Subject, Description string }
	FieldViolations []struct{ Field string }
}

// classify says what a response means; nil is delivered.
func classify(response *http.Response, body []byte) *push.Error {
	status := response.StatusCode
	if status >= 200 && status < 300 {
		return nil
	}
	var r reply
	_ = json.Unmarshal(body, &r) // a proxy's response is in another format
	failure := &push.Error{
		Class: push.Permanent, Code: strconv.Itoa(status),
		RetryAfter: max(httpsend.RetryAfter(response.Header.Get("Retry-After"), time.Now()), r.retryDelay()),
	}
	code := r.code()
	if code != "" {
		failure.Code += "." + code
	}
	switch {
	case code == codeUnregistered || code == codeSenderMismatch || r.badToken():
		failure.Class = push.TargetGone
	case status == http.StatusTooManyRequests:
		r.throttled(failure)
	case status >= 500 || status == http.StatusRequestTimeout:
		failure.Class = push.Transient
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		failure.Class, failure.ChannelWide = push.CredentialsRefused, true
	}
	return failure
}

// throttled finds out which quota is used up: the device's or the project's. The latter concerns all notifications.
func (r *reply) throttled(failure *push.Error) {
	failure.Class = push.Throttled
	exhausted := "project"
	for _, d := range r.Error.Details {
		for _, v := range d.Violations {
			if strings.Contains(strings.ToLower(v.Subject+v.Description), "device") {
				exhausted = "device"
			}
		}
	}
	failure.Code += "." + exhausted
	failure.ChannelWide = exhausted == "project"
}

func (r *reply) code() string {
	for _, d := range r.Error.Details {
		if strings.HasSuffix(d.Type, "google.firebase.fcm.v1.FcmError") && known[d.ErrorCode] {
			return d.ErrorCode
		}
	}
	return ""
}

// badToken tells whether the service refused the target.
func (r *reply) badToken() bool {
	for _, d := range r.Error.Details {
		for _, v := range d.FieldViolations {
			if v.Field == "message.token" {
				return true
			}
		}
	}
	return false
}

// retryDelay reads when to retry from the body. The header has two more forms of it.
func (r *reply) retryDelay() time.Duration {
	for _, d := range r.Error.Details {
		if delay, err := time.ParseDuration(d.RetryDelay); err == nil &&
			strings.HasSuffix(d.Type, "google.rpc.RetryInfo") {
			return min(max(delay, 0), httpsend.MaxRetryAfter)
		}
	}
	return 0
}
