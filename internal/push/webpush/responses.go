package webpush

import (
	"slices"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

// otherKey is the condition that the service says that the subscription was made with another VAPID key. Anybody can
// register such a subscription. If most say so, this deployment's key is the wrong one.
const otherKey = "the subscription has another key"

// otherKeyWords are the words by which push services say so: Mozilla's, Google's and Apple's.
var otherKeyWords = []string{
	"VAPID public key mismatch", "VapidPkHashMismatch",
	"do not correspond to the credentials used to create the subscription",
	"does not correspond to the sender ID used to subscribe",
}

// responses says what each response of a push service means: RFC 8030, RFC 8292, and what the services of Mozilla,
// Google, Apple and Microsoft (WNS) document.
var responses = slices.Concat(push.Table{
	{Status: 2},
	{Status: 3, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 4, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 400, If: otherKey, Class: push.TargetGone, Concerns: push.ConcernsCredential},
	{Status: 401, Class: push.CredentialsRefused, Concerns: push.ConcernsCredential},
	{Status: 401, If: otherKey, Class: push.TargetGone, Concerns: push.ConcernsCredential},
	{Status: 403, Class: push.CredentialsRefused, Concerns: push.ConcernsCredential},
	{Status: 403, If: otherKey, Class: push.TargetGone, Concerns: push.ConcernsCredential},
	{Status: 404, Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 406, Class: push.Throttled, Concerns: push.ConcernsTarget}, // WNS has had too many for this channel
	{Status: 410, Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 413, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 425, Class: push.Transient, Concerns: push.ConcernsTarget},
	{Status: 429, Class: push.Throttled, Concerns: push.ConcernsHost},
}, httpsend.Failures)
