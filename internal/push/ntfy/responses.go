package ntfy

import (
	"slices"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

// ownServer is the condition that the server is the configured one. The token goes to it alone, and a target can name
// every other.
const ownServer = "from `--ntfy-server`"

// responses says what each response of a server means. Every topic exists: where one is not found, there is no ntfy
// server at that URL. A topic that is reserved or read-only (403) concerns whoever chose it.
var responses = slices.Concat(push.Table{
	{Status: 2},
	{Status: 3, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 4, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 401, If: ownServer, Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody},
	{Status: 403, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 404, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 413, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 425, Class: push.Transient, Concerns: push.ConcernsTarget},
	{Status: 429, Class: push.Throttled, Concerns: push.ConcernsHost},
	// There is no subscriber that the message could count for.
	{Status: 507, Class: push.Transient, Concerns: push.ConcernsTarget},
}, httpsend.Failures)
