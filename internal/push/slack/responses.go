package slack

import (
	"slices"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

// responses says what each response of a webhook means. Slack documents the statuses of invalid_payload,
// user_not_found, action_prohibited, channel_not_found, channel_is_archived and rollup_error. It documents the other
// reasons without a status, so these count with any of 4xx. A 429 names one webhook's limit; it is assumed that a
// rollup_error is about one webhook too, since Slack says no more than that something strange happened.
var responses = slices.Concat(push.Table{
	{Status: 2},
	{Status: 3, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 4, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 400, Reason: "invalid_payload", Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 4, Reason: "invalid_blocks", Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 4, Reason: "no_text", Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 4, Reason: "too_many_attachments", Class: push.Permanent, Concerns: push.ConcernsTarget},
	// Whom the webhook posts to is gone.
	{Status: 400, Reason: "user_not_found", Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 404, Reason: "channel_not_found", Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 410, Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 410, Reason: "channel_is_archived", Class: push.TargetGone, Concerns: push.ConcernsTarget},
	// The webhook was removed or disabled, or the app was.
	{Status: 4, Reason: "invalid_token", Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 4, Reason: "no_active_hooks", Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 4, Reason: "no_service", Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 4, Reason: "no_service_id", Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 4, Reason: "no_team", Class: push.TargetGone, Concerns: push.ConcernsTarget},
	// A workspace's administrator decides, and may decide otherwise.
	{Status: 403, Reason: "action_prohibited", Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 4, Reason: "posting_to_general_channel_denied", Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 4, Reason: "team_disabled", Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 429, Class: push.Throttled, Concerns: push.ConcernsTarget},
	{Status: 500, Reason: "rollup_error", Class: push.Transient, Concerns: push.ConcernsTarget},
}, httpsend.Failures)
