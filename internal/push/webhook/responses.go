package webhook

import (
	"slices"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

// responses says what each response of a receiver means. Receivers are other people's programs: what one of them
// refuses today for a fault or a setting of its own it may take tomorrow. So everything is tried again, as Standard
// Webhooks recommends, but for 410, by which a receiver says that it wants no more.
var responses = slices.Concat(push.Table{
	{Status: 2},
	{Status: 3, Class: push.Transient, Concerns: push.ConcernsTarget}, // redirects are not followed
	// Programs that have taken a POST lead on with these.
	{Status: 302, Class: push.Ambiguous, Concerns: push.ConcernsTarget},
	{Status: 303, Class: push.Ambiguous, Concerns: push.ConcernsTarget},
	{Status: 4, Class: push.Transient, Concerns: push.ConcernsTarget},
	{Status: 410, Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 425, Class: push.Transient, Concerns: push.ConcernsTarget},
	{Status: 429, Class: push.Throttled, Concerns: push.ConcernsHost},
}, httpsend.Failures)
