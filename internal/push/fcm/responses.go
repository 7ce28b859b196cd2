package fcm

import (
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

// The conditions beyond status and error code.
const (
	badToken     = "not a token"
	ofDevice     = "the device's quota"
	ofExchange   = "from the token endpoint"
	unnamedDelay = time.Minute // what the service asks to wait without a Retry-After
)

// responses says what each response of the service means: its error codes, and Google's token endpoint.
var responses = slices.Concat(push.Table{
	{Status: 2},
	{Status: 3, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 4, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 400, Reason: codeInvalid, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 400, If: badToken, Class: push.TargetGone, Concerns: push.ConcernsCredential},
	{Status: 400, Reason: codeInvalid, If: badToken, Class: push.TargetGone, Concerns: push.ConcernsCredential},
	{Status: 401, Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody},
	// The app's APNs key or web push key: devices of other platforms are none the worse.
	{Status: 401, Reason: codeThirdParty, Class: push.CredentialsRefused, Concerns: push.ConcernsCredential},
	{Status: 403, Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody},
	{Status: 403, Reason: codeSenderMismatch, Class: push.TargetGone, Concerns: push.ConcernsCredential},
	{Status: 404, Class: push.Permanent, Concerns: push.ConcernsCredential}, // the project is none, or the token
	{Status: 404, Reason: codeUnregistered, Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 429, Class: push.Throttled, Concerns: push.ConcernsEverybody, Wait: unnamedDelay},
	{
		Status: 429, Reason: codeQuota, Class: push.Throttled, Concerns: push.ConcernsEverybody,
		Wait: unnamedDelay,
	},
	{
		Status: 429, Reason: codeQuota, If: ofDevice, Class: push.Throttled, Concerns: push.ConcernsTarget,
		Wait: unnamedDelay,
	},
	{Status: 500, Reason: codeInternal, Class: push.Transient, Concerns: push.ConcernsHost},
	{Status: 503, Reason: codeUnavailable, Class: push.Transient, Concerns: push.ConcernsHost},
	{
		Status: 4, If: ofExchange, Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody, Unsent: true,
	},
	{Status: 408, If: ofExchange, Class: push.Transient, Concerns: push.ConcernsHost, Unsent: true},
	{
		Status: 429, If: ofExchange, Class: push.Throttled, Concerns: push.ConcernsEverybody, Unsent: true,
		Wait: unnamedDelay,
	},
	{Status: 5, If: ofExchange, Class: push.Transient, Concerns: push.ConcernsHost, Unsent: true},
}, httpsend.Failures)
