package email

import (
	"time"

	"github.com/pacer-notify/pacer/internal/push"
)

// The conditions beyond code and enhanced code: what was refused.
const (
	ofConnection = "before MAIL FROM"
	ofSender     = "to MAIL FROM"
	noRelay      = "its text refuses the sender or to relay"
	tooFast      = "the mailbox receives mail too fast"
	// international addresses are those whose servers may call the syntax wrong where they don't know it.
	international = "to an internationalized address"
	noUTF8        = "no SMTPUTF8 for an address that is not ASCII before the @"
	noUTF8Sender  = "no SMTPUTF8 for a sender's address that is not ASCII before the @"
	noTrust       = "no valid certificate, no STARTTLS, or no known way to log in"
)

// tooFastWords is how Gmail says that a mailbox receives too much. Its code is that of a mailbox that is disabled.
const tooFastWords = "receiving mail at a rate"

const (
	// congestion is how long to wait when the server has enough of this deployment, and says no time; quotaOver when
	// what it gives for a day is used up.
	congestion = time.Minute
	quotaOver  = time.Hour
)

// responses says what each reply of a server means: RFC 5321, RFC 3463 for the enhanced codes, and what the large
// providers document. A refusal of the recipient or the message concerns that mail alone; a refusal of the connection
// or the sender concerns all mail. Many servers refuse a sender only when they know the recipient, and can't
// refuse to relay before. Such a refusal may concern either: what becomes of other mail tells which.
var responses = push.Table{
	{Status: 2},
	{Status: 4, Class: push.Transient, Concerns: push.ConcernsTarget}, // greylisting, a full mailbox
	{Status: 4, If: ofSender, Class: push.Throttled, Concerns: push.ConcernsEverybody, Wait: congestion},
	{Status: 4, If: ofConnection, Class: push.Transient, Concerns: push.ConcernsHost, Unsent: true},
	{Status: 421, Class: push.Throttled, Concerns: push.ConcernsHost},
	{Status: 421, If: ofSender, Class: push.Throttled, Concerns: push.ConcernsHost},
	{Status: 421, If: ofConnection, Class: push.Throttled, Concerns: push.ConcernsHost, Unsent: true},
	{Status: 5, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 5, If: ofSender, Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody},
	{
		Status: 5, If: ofConnection, Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody,
		Unsent: true,
	},
	{Status: 530, Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody},
	{Status: 535, Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody},
	{Status: 538, Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody},
	{Status: 552, If: ofSender, Class: push.Permanent, Concerns: push.ConcernsTarget}, // the message is too long
	{Status: 5, Reason: "5.1.1", Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 5, Reason: "5.1.2", Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 5, Reason: "5.1.3", Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 5, Reason: "5.1.3", If: international, Class: push.Permanent, Concerns: push.ConcernsTarget},
	{Status: 5, Reason: "5.1.6", Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 5, Reason: "5.1.10", Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{Status: 5, Reason: "5.2.1", Class: push.TargetGone, Concerns: push.ConcernsTarget},
	{
		Status: 5, Reason: "5.2.1", If: tooFast, Class: push.Transient, Concerns: push.ConcernsTarget,
		Wait: congestion,
	},
	{Status: 5, Reason: "5.4.5", Class: push.Throttled, Concerns: push.ConcernsEverybody, Wait: quotaOver},
	{
		Status: 5, Reason: "5.4.5", If: ofSender, Class: push.Throttled, Concerns: push.ConcernsEverybody,
		Wait: quotaOver,
	},
	{Status: 5, If: noRelay, Class: push.CredentialsRefused, Concerns: push.ConcernsCredential},
	// Exchange and Office 365: it does not relay, this sender may not send, and again it does not relay.
	{Status: 5, Reason: "5.7.54", Class: push.CredentialsRefused, Concerns: push.ConcernsCredential},
	{Status: 5, Reason: "5.7.60", Class: push.CredentialsRefused, Concerns: push.ConcernsCredential},
	{Status: 5, Reason: "5.7.64", Class: push.CredentialsRefused, Concerns: push.ConcernsCredential},
	{Status: 5, Reason: "5.7.8", Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody},
	{If: noUTF8, Class: push.Permanent, Concerns: push.ConcernsTarget, Unsent: true},
	{If: noUTF8Sender, Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody, Unsent: true},
	{If: noTrust, Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody, Unsent: true},
}
