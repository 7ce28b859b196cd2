package fcm

import (
	"encoding/json"
	"net/http"
	"slices"
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

// reply is the body of a response that reports an error.
type reply struct {
	Error struct {
		Message string
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

// classify says what a response means, of which text is the body, or what there is of it; nil is delivered.
func classify(response *http.Response, text string, cut bool) *push.Error {
	var r reply
	if response.StatusCode != http.StatusOK {
		_ = json.Unmarshal([]byte(text), &r) // a proxy's response is in another format
	}
	read := httpsend.ResponseOf(response)
	read.Cut = cut
	read.RetryAfter = max(read.RetryAfter, r.retryDelay())
	read.Reason = r.code()
	if r.badToken() {
		read.Conditions = append(read.Conditions, badToken)
	}
	if r.ofDevice() {
		read.Conditions = append(read.Conditions, ofDevice)
	}
	failure := responses.Read(read)
	if failure != nil && failure.Class == push.Throttled { // whose quota it is tells operators what to do
		failure.Code += "." + exhausted(failure.Concerns)
	}
	return failure
}

// exhausted names the quota that is used up.
func exhausted(concerns push.Scope) string {
	if concerns == push.ConcernsTarget {
		return "device"
	}
	return "project"
}

// ofDevice reports whether the quota that is used up is the device's.
func (r *reply) ofDevice() bool {
	for _, d := range r.Error.Details {
		for _, v := range d.Violations {
			if strings.Contains(strings.ToLower(v.Subject+v.Description), "device") {
				return true
			}
		}
	}
	return false
}

// knownCodes are the error codes that the table knows. No other gets into logs and metrics.
var knownCodes = responses.Reasons()

func (r *reply) code() string {
	for _, d := range r.Error.Details {
		if strings.HasSuffix(d.Type, "google.firebase.fcm.v1.FcmError") && slices.Contains(knownCodes, d.ErrorCode) {
			return d.ErrorCode
		}
	}
	return ""
}

// notAToken is what the service says of a target that it cannot read. Often it adds no detail.
const notAToken = "not a valid FCM registration token" //nolint:gosec // no credential

// badToken reports whether the service refused the target.
func (r *reply) badToken() bool {
	if strings.Contains(r.Error.Message, notAToken) {
		return true
	}
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
