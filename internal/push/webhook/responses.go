package webhook

import "github.com/pacer-notify/pacer/internal/push"

// responses says what each response of a receiver means. Receivers are other people's programs: what one of them
// refuses today for a fault or a setting of its own it may take tomorrow. So everything is tried again, as Standard
// Webhooks recommends, but for 410, by which a receiver says that it wants no more.
var responses = push.Table{
	{Status: 2},
	{Status: 3, Class: push.Transient, Concerns: push.ConcernsTarget}, // redirects are not followed
	{Status: 4, Class: push.Transient, Concerns: push.ConcernsTarget},
	{Status: 408, Class: push.Transient, Concerns: push.ConcernsHost},
	{Status: 410, Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 425, Class: push.Transient, Concerns: push.ConcernsTarget},
	{Status: 429, Class: push.Throttled, Concerns: push.ConcernsHost},
	{Status: 5, Class: push.Transient, Concerns: push.ConcernsHost},
}
