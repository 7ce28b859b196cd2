package teams

import (
	"slices"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

// responses says what each response of a webhook means. Microsoft documents 202, 429, the codes NoResponse and
// GatewayTimeout, and that a connector responds with 200 and tells an error of Teams in its text, which is read as that
// error. It documents no list of the codes that a workflow gives which was removed, turned off, or called with a wrong
// signature: these are those that people report. A URL holds its own credential and a new signature makes a new URL, so
// a refused one will not work again.
var responses = slices.Concat(push.Table{
	{Status: 2},
	{Status: 3, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 4, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 400, Reason: "TriggerInputSchemaMismatch", Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 400, Reason: "WorkflowTriggerIsNotEnabled", Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 401, Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 401, Reason: "DirectApiAuthorizationRequired", Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 403, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 404, Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 404, Reason: "WorkflowNotFound", Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 410, Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 413, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 429, Class: push.Throttled, Concerns: push.ConcernsTarget},
	// The workflow runs, and may have posted before it failed or took too long.
	{Status: 502, Reason: "NoResponse", Class: push.Ambiguous, Concerns: push.ConcernsTarget},
	{Status: 504, Reason: "GatewayTimeout", Class: push.Ambiguous, Concerns: push.ConcernsTarget},
}, httpsend.Failures)
