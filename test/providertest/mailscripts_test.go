package providertest_test

import (
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/email"
	"github.com/pacer-notify/pacer/test/providertest"
)

// tooFast is how Gmail says that a mailbox receives too much.
const tooFast = "5.2.1 The user you are trying to contact is receiving mail at a rate that prevents more."

// emailScripts are what mail servers reply: RFC 5321, RFC 3463, and what the large providers document.
var emailScripts = []script{
	{row: "2xx", unread: true, means: "delivered kept yes"},
	{row: "4xx", reply: with(450, "4.2.0 greylisted, try again later"), means: "transient returned no target"},
	{
		row: "4xx, to MAIL FROM", at: providertest.Begun, reply: with(451, "4.7.1 too many messages"),
		means: "throttled returned no everybody 1m",
	},
	{
		row: "4xx, before MAIL FROM", at: providertest.Connected, reply: with(450, "4.3.2 try again later"),
		means: "transient returned no host",
	},
	{row: "421", reply: with(421, "4.7.0 too many connections"), means: "throttled returned no host"},
	{
		row: "421, to MAIL FROM", at: providertest.Begun, reply: with(421, "4.7.0 too many connections"),
		means: "throttled returned no host",
	},
	{
		row: "421, before MAIL FROM", at: providertest.Connected, reply: with(421, "4.7.0 too many connections"),
		means: "throttled returned no host",
	},
	{row: "5xx", reply: with(554, "5.7.1 spam"), means: "permanent returned no target"},
	{row: "5xx", at: providertest.Sent, reply: with(554, "5.7.1 spam"), means: "permanent returned no target"},
	{row: "4xx", at: providertest.Announced, reply: with(452, "4.3.1 no space"), means: "transient returned no target"},
	{row: "4xx", at: providertest.Sent, reply: with(451, "4.3.0 later"), means: "transient returned no target"},
	{
		row: "5xx, before MAIL FROM", at: providertest.LoggedIn, reply: with(535, "5.7.8 wrong password"),
		means: "credentials_refused returned no everybody",
	},
	{
		row: "4xx, before MAIL FROM", at: providertest.LoggedIn, reply: with(454, "4.7.0 later"),
		means: "transient returned no host",
	},
	{
		row: "5xx, to MAIL FROM", at: providertest.Begun, reply: with(550, "5.7.60 not allowed to send as this sender"),
		means: "credentials_refused returned no everybody",
	},
	{
		row: "5xx, before MAIL FROM", at: providertest.Connected, reply: with(554, "5.7.1 blocked"),
		means: "credentials_refused returned no everybody",
	},
	{row: "530", reply: with(530, "5.7.0 authentication required"), means: "credentials_refused returned no everybody"},
	{row: "535", reply: with(535, "5.7.9 wrong mechanism"), means: "credentials_refused returned no everybody"},
	{row: "538", reply: with(538, "5.7.11 encryption required"), means: "credentials_refused returned no everybody"},
	{
		row: "552, to MAIL FROM", at: providertest.Begun, reply: with(552, "5.3.4 too big"),
		means: "permanent returned no target",
	},
	{row: "5xx 5.1.1", reply: with(550, "5.1.1 no"), means: "target_gone returned no target"},
	{row: "5xx 5.1.2", reply: with(550, "5.1.2 no"), means: "target_gone returned no target"},
	{row: "5xx 5.1.3", reply: with(550, "5.1.3 no"), means: "target_gone returned no target"},
	{
		row: "5xx 5.1.3, to an internationalized address", target: "ada@bücher.example", reply: with(550, "5.1.3 no"),
		means: "permanent returned no target",
	},
	{
		row: "no SMTPUTF8 for an address that is not ASCII before the @", target: "ünal@example.com",
		means: "permanent returned no target",
	},
	{
		row: "no SMTPUTF8 for a sender's address that is not ASCII before the @", set: 4,
		means: "credentials_refused returned no everybody",
	},
	{row: "5xx 5.1.6", reply: with(550, "5.1.6 no"), means: "target_gone returned no target"},
	{row: "5xx 5.1.10", reply: with(550, "5.1.10 no"), means: "target_gone returned no target"},
	{row: "5xx 5.2.1", reply: with(550, "5.2.1 no"), means: "target_gone returned no target"},
	{
		row: "5xx 5.2.1, the mailbox receives mail too fast", reply: with(550, tooFast),
		means: "transient returned no target 1m",
	},
	{row: "5xx 5.4.5", reply: with(550, "5.4.5 no"), means: "throttled returned no everybody 1h"},
	{
		row: "5xx 5.4.5, to MAIL FROM", at: providertest.Begun, reply: with(550, "5.4.5 no"),
		means: "throttled returned no everybody 1h",
	},
	{
		row:   "5xx, its text refuses the sender or to relay",
		reply: with(553, "5.7.1 <pacer@example.com>: Sender address rejected: not owned by user pacer"),
		means: "credentials_refused returned no credential",
	},
	{
		row:   "5xx, its text refuses the sender or to relay",
		reply: with(554, "5.7.1 <ada@example.com>: Relay access denied"),
		means: "credentials_refused returned no credential",
	},
	{
		row: "5xx 5.7.54", reply: with(550, "5.7.54 SMTP; Unable to relay recipient in non-accepted domain"),
		means: "credentials_refused returned no credential",
	},
	{
		row: "5xx 5.7.60", at: providertest.Sent,
		reply: with(550, "5.7.60 SMTP; Client does not have permissions to send as this sender"),
		means: "credentials_refused returned no credential",
	},
	{
		row: "5xx 5.7.64", reply: with(550, "5.7.64 TenantAttribution; Relay Access Denied"),
		means: "credentials_refused returned no credential",
	},
	{row: "5xx 5.7.8", reply: with(550, "5.7.8 no"), means: "credentials_refused returned no everybody"},
	{row: "no valid certificate, no STARTTLS, or no known way to log in", set: 1, means: "credentials_refused returned no everybody"},
	{row: "no valid certificate, no STARTTLS, or no known way to log in", set: 2, means: "credentials_refused returned no everybody"},
	{row: "no valid certificate, no STARTTLS, or no known way to log in", set: 3, means: "credentials_refused returned no everybody"},
}

var _ = add("email", emailBench)

func emailBench(t *testing.T) *bench {
	t.Helper()
	server := providertest.StartSMTP(t, providertest.SMTPConfig{})
	from := func(sender, address string) channel.Descriptor {
		return email.Settings{Server: "smtp://pacer@" + address, Password: "secret", From: sender}.Channel()
	}
	to := func(address string) channel.Descriptor { return from("pacer@example.com", address) }
	return &bench{
		scripts: emailScripts, follow: server.Follow, unplug: server.Unplug, target: "ada@example.com",
		channels: []channel.Descriptor{
			to(server.Address()),
			to(strings.Replace(server.Address(), "127.0.0.1", "localhost", 1)), // which the certificate is not for
			to(providertest.StartSMTP(t, providertest.SMTPConfig{Plain: true}).Address()),
			to(providertest.StartSMTP(t, providertest.SMTPConfig{NoLogin: true}).Address()),
			from("üpacer@example.com", server.Address()),
		},
	}
}
