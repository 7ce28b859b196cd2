package sms

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

// failedAtOnce is the condition that Twilio took the message and reports at once that it failed.
const failedAtOnce = "with the message already failed"

// unnamedDelay is how long to wait where Twilio says no more than that there is too much.
const unnamedDelay = time.Minute

// responses says what each response of Twilio means. Its error codes are documented; with which status each comes is
// documented for some alone, so they count with any of 4xx. The codes that begin with 3 tell what became of a message
// later: Twilio tells them to a StatusCallback, and it is assumed that a response may have one already.
//
//nolint:dupl // rows are alike
var responses = slices.Concat(push.Table{
	{Status: 2},
	{Status: 3, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 4, Class: push.Permanent, Concerns: push.ConcernsTarget},
	// The credentials and the account: it is not active, there is none.
	{Status: 401, Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody},
	{Status: 4, Reason: "20003", Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody},
	{Status: 4, Reason: "20005", Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody},
	{Status: 4, Reason: "20404", Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody},
	// The number: it is none, is no mobile one, or its owner sent STOP.
	{Status: 4, Reason: "21211", Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 4, Reason: "21614", Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 4, Reason: "21610", Class: push.TargetGone, Concerns: push.ConcernsTarget},
	// Its country is not enabled, it is not verified for a trial, or no way leads to it.
	{Status: 4, Reason: "21408", Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 4, Reason: "21608", Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 4, Reason: "21612", Class: push.Permanent, Concerns: push.ConcernsTarget},
	// The text: there is none, or it is too long.
	{Status: 4, Reason: "21602", Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 4, Reason: "21617", Class: push.Permanent, Concerns: push.ConcernsTarget},
	// The sender: it is none, is missing, sends no messages, is another account's; there is no such service, or it has
	// no number.
	{Status: 4, Reason: "21212", Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody},
	{Status: 4, Reason: "21603", Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody},
	{Status: 4, Reason: "21606", Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody},
	{Status: 4, Reason: "21660", Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody},
	{Status: 4, Reason: "21701", Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody},
	{Status: 4, Reason: "21704", Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody},
	// Too much: at once, in the sender's queue, or within 24 hours.
	{Status: 429, Class: push.Throttled, Concerns: push.ConcernsEverybody, Wait: unnamedDelay},
	{Status: 4, Reason: "20429", Class: push.Throttled, Concerns: push.ConcernsEverybody, Wait: unnamedDelay},
	{Status: 4, Reason: "21611", Class: push.Throttled, Concerns: push.ConcernsEverybody, Wait: unnamedDelay},
	{Status: 4, Reason: "63038", Class: push.Throttled, Concerns: push.ConcernsEverybody, Wait: time.Hour},
	// What became of it at once: the queue is full, the account suspended, the phone off, the message blocked, the
	// phone unknown, a landline, the message filtered, or nobody knows why.
	{Status: 2, If: failedAtOnce, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{
		Status: 2, Reason: "30001", If: failedAtOnce, Class: push.Throttled, Concerns: push.ConcernsEverybody,
		Wait: unnamedDelay,
	},
	{Status: 2, Reason: "30002", If: failedAtOnce, Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody},
	{Status: 2, Reason: "30003", If: failedAtOnce, Class: push.Transient, Concerns: push.ConcernsTarget},
	{Status: 2, Reason: "30004", If: failedAtOnce, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 2, Reason: "30005", If: failedAtOnce, Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 2, Reason: "30006", If: failedAtOnce, Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 2, Reason: "30007", If: failedAtOnce, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 2, Reason: "30008", If: failedAtOnce, Class: push.Ambiguous, Concerns: push.ConcernsTarget},
	{
		Status: 2, Reason: "63038", If: failedAtOnce, Class: push.Throttled, Concerns: push.ConcernsEverybody,
		Wait: time.Hour,
	},
}, httpsend.Failures)

// reply is the body of a response: an error with its code, or the message that was made, which may have failed.
type reply struct {
	Code      json.Number `json:"code"`
	ErrorCode json.Number `json:"error_code"`
	Status    any         `json:"status"`
}

// classify says what a response means, of which text is the body, or what there is of it; nil is delivered.
func classify(response *http.Response, text string, cut bool) *push.Error {
	read := httpsend.ResponseOf(response)
	read.Cut = cut
	var r reply
	if json.Unmarshal([]byte(text), &r) != nil {
		return responses.Read(read) // a proxy's response is in another format
	}
	read.Reason = r.Code.String()
	if response.StatusCode/100 == 2 {
		read.Reason = r.ErrorCode.String()
		if read.Reason != "" || r.Status == "failed" || r.Status == "undelivered" {
			read.Conditions = []string{failedAtOnce}
		}
	}
	return responses.Read(read)
}
