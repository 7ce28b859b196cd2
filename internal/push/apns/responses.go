package apns

import (
	"slices"

	"github.com/sideshow/apns2"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

// ownTopic is the condition that the topic is the configured one. Only then does a refused topic mean wrong settings or
// a device of another app: an override can name whatever it likes. A topic with the suffix of a push type is not the
// configured one: an app that takes no calls, say, must not stop its alerts, and their token must not be deactivated.
const ownTopic = "the topic is `--apns-topic`"

// responses says what each response of the service means: the statuses and reasons that Apple documents.
//
//nolint:dupl // rows are alike
var responses = slices.Concat(push.Table{
	{Status: 2},
	{Status: 3, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 4, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 400, Reason: apns2.ReasonBadCollapseID, Class: push.Permanent, Concerns: push.ConcernsTarget},
	// A device of the sandbox, when production is called, and the other way round.
	{Status: 400, Reason: apns2.ReasonBadDeviceToken, Class: push.TargetGone, Concerns: push.ConcernsCredential},
	{Status: 400, Reason: apns2.ReasonBadExpirationDate, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 400, Reason: apns2.ReasonBadMessageID, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 400, Reason: apns2.ReasonBadPriority, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 400, Reason: apns2.ReasonBadTopic, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{
		Status: 400, Reason: apns2.ReasonBadTopic, If: ownTopic,
		Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody,
	},
	{Status: 400, Reason: apns2.ReasonDeviceTokenNotForTopic, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{
		Status: 400, Reason: apns2.ReasonDeviceTokenNotForTopic, If: ownTopic,
		Class: push.TargetGone, Concerns: push.ConcernsCredential,
	},
	{Status: 400, Reason: apns2.ReasonDuplicateHeaders, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 400, Reason: apns2.ReasonIdleTimeout, Class: push.Transient, Concerns: push.ConcernsHost},
	{Status: 400, Reason: apns2.ReasonInvalidPushType, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 400, Reason: apns2.ReasonMissingDeviceToken, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 400, Reason: apns2.ReasonMissingTopic, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{
		Status: 400, Reason: apns2.ReasonMissingTopic, If: ownTopic,
		Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody,
	},
	{Status: 400, Reason: apns2.ReasonPayloadEmpty, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 400, Reason: apns2.ReasonTopicDisallowed, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{
		Status: 400, Reason: apns2.ReasonTopicDisallowed, If: ownTopic,
		Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody,
	},
	{Status: 403, Class: push.CredentialsRefused, Concerns: push.ConcernsCredential},
	{Status: 403, Reason: apns2.ReasonBadCertificate, Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody},
	{
		Status: 403, Reason: apns2.ReasonBadCertificateEnvironment,
		Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody,
	},
	{
		Status: 403, Reason: "BadEnvironmentKeyIdInToken",
		Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody,
	},
	{
		Status: 403, Reason: apns2.ReasonExpiredProviderToken,
		Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody,
	},
	{Status: 403, Reason: apns2.ReasonForbidden, Class: push.CredentialsRefused, Concerns: push.ConcernsCredential},
	{
		Status: 403, Reason: apns2.ReasonInvalidProviderToken,
		Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody,
	},
	{
		Status: 403, Reason: apns2.ReasonMissingProviderToken,
		Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody,
	},
	{
		Status: 403, Reason: "UnrelatedKeyIdInToken",
		Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody,
	},
	{Status: 404, Reason: apns2.ReasonBadPath, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 405, Reason: apns2.ReasonMethodNotAllowed, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 410, Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 410, Reason: apns2.ReasonExpiredToken, Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 410, Reason: apns2.ReasonUnregistered, Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 413, Reason: apns2.ReasonPayloadTooLarge, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 429, Class: push.Throttled, Concerns: push.ConcernsTarget},
	{
		Status: 429, Reason: apns2.ReasonTooManyProviderTokenUpdates,
		Class: push.Throttled, Concerns: push.ConcernsEverybody,
	},
	{Status: 429, Reason: apns2.ReasonTooManyRequests, Class: push.Throttled, Concerns: push.ConcernsTarget},
	{Status: 500, Reason: apns2.ReasonInternalServerError, Class: push.Transient, Concerns: push.ConcernsHost},
	{Status: 503, Reason: apns2.ReasonServiceUnavailable, Class: push.Transient, Concerns: push.ConcernsHost},
	{Status: 503, Reason: apns2.ReasonShutdown, Class: push.Transient, Concerns: push.ConcernsHost},
}, httpsend.Failures)
