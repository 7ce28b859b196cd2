package email

import (
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/secret"
)

// Name is the channel's name.
const Name notification.Channel = "email"

// Settings of the channel. Their flags begin with --email-.
type Settings struct {
	// Server is smtp://[user@]host[:port] (STARTTLS), smtps://... or smtp+plain://...
	Server string `name:"server" example:"smtp://pacer@mail.example.com" needs:"from" placeholder:"URL" help:"E-mail: smtp://[user@]host[:port] (STARTTLS), smtps://... or smtp+plain://..."`
	// Password goes with the user in Server.
	Password string `name:"password" example:"hidden-of-mail" credential:"" needs:"server" placeholder:"TEXT|file:PATH" json:"-" help:"Password of the user in --email-server."`
	// From is the sender's address.
	From string `name:"from" example:"Pacer <pacer@example.com>" needs:"server" placeholder:"ADDRESS" help:"Sender's address of e-mails."`
	// BounceAddress is where mail that can't be delivered comes back to, with a token between its local part and its
	// domain. Defaults to none: it comes back to the sender's address.
	BounceAddress string `name:"bounce-address" example:"bounces@example.com" needs:"server" placeholder:"ADDRESS" help:"Where undeliverable e-mails come back to, as LOCAL+TOKEN@DOMAIN: bounces@example.com. Needs --unsubscribe-key. Default: the sender's address."`
	// Limits are how many e-mails all processes together may send, such as 600000/1m. Default to none.
	Limits []string `name:"limits" example:"100/1s" placeholder:"N/DURATION" help:"E-mails, over all processes. Default: none."`
}

// Channel describes the channel with these settings.
func (s Settings) Channel() channel.Descriptor {
	return channel.Descriptor{
		Name:       Name,
		Configured: s.Server != "",
		MaxContent: 256 << 10,
		OwnFormat: "On this channel: a JSON object with subject, text, html, reply_to, headers (an object of texts) and " +
			"attachments (a list of objects with name, type, content in base64, and cid for one that the HTML shows).",
		TakesHTML:  true,
		Limits:     s.Limits,
		Delivery:   delivery(),
		Credential: s.Server,
		Responses:  responses,
		NewChecker: func(channel.Surroundings) push.Checker { return Checker{} },
		Open: func(in channel.Process) (push.Sender, error) {
			return New(Config{
				Server: s.Server, Password: secret.New(s.Password), From: s.From, BounceAddress: s.BounceAddress,
				Unsubscribe: in.Unsubscribe, ReturnToken: in.ReturnToken,
			})
		},
	}
}

// delivery is what RFC 5321, 4.5.4.1, recommends: attempts half an hour apart in the first hour, then one every two or
// three hours, for four to five days. Three quicker ones stand before: pacer hands its e-mails to a server of its own,
// which may be restarted, and who is greylisted is taken after some minutes.
func delivery() notification.DeliverySettings {
	steps := []time.Duration{
		time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour,
	}
	return notification.DeliverySettings{
		Retry:   notification.Retry{Schedule: slices.Concat(steps, slices.Repeat([]time.Duration{3 * time.Hour}, 36))},
		Timeout: 30 * time.Second,
	}
}
