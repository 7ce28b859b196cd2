package sms

import (
	"errors"
	"strconv"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/secret"
)

// Name is the channel's name.
const Name notification.Channel = "sms"

// Settings of the channel. Their flags begin with --sms-.
type Settings struct {
	// Account is the account's SID.
	Account string `name:"account" example:"AC0123456789" needs:"token,from" placeholder:"SID" help:"SMS over Twilio: the account's SID (AC...)."`
	// Token is the account's token, or SID:SECRET of an API key.
	Token string `name:"token" example:"hidden-of-sms" credential:"" needs:"account" placeholder:"TOKEN|file:PATH" json:"-" help:"SMS: the account's token, or an API key as SK...:SECRET."`
	// From is a number, a short code, a name, or the SID of a messaging service.
	From string `name:"from" example:"+15005550006" needs:"account" placeholder:"NUMBER|SID" help:"SMS: the sender: a number such as +15005550006, or a messaging service (MG...)."`
	// Segments are how many segments a message may have. Default to no limit but Twilio's own, 1,600 characters.
	Segments string `name:"segments" example:"3" needs:"account" placeholder:"N" help:"SMS: most segments that a message may have; each is billed. Default: as many as 1,600 characters take."`
	// Endpoint is the base URL of Twilio, or of a gateway with its API. Defaults to Twilio's.
	Endpoint string `name:"endpoint" example:"https://sms.example.com" needs:"account" placeholder:"URL" help:"SMS: base URL of another gateway with Twilio's API."`
	// Limits are how often all processes together may call Twilio, such as 600000/1m. Default to none.
	Limits []string `name:"limits" example:"100/1s" placeholder:"N/DURATION" help:"Calls to Twilio, over all processes. Default: none."`
}

// Channel describes the channel with these settings.
func (s Settings) Channel() channel.Descriptor {
	return channel.Descriptor{
		Name:       Name,
		Configured: s.Account != "",
		OwnFormat: "On this channel: a JSON object with parameters of Twilio's API, such as Body, MediaUrl or " +
			"StatusCallback.",
		Limits:     s.Limits,
		Delivery:   channel.DeliveryOfPush(),
		Credential: s.Endpoint + s.Account,
		Public:     s.Segments,
		Responses:  responses,
		NewChecker: func(around channel.Surroundings) push.Checker {
			return Checker{Segments: Settings{Segments: around.Public}.segments()}
		},
		Open: func(channel.Process) (push.Sender, error) {
			return New(Config{
				Account: s.Account, Token: secret.New(s.Token), From: s.From, Endpoint: s.Endpoint,
				Segments: s.segments(),
			})
		},
	}
}

// segments is how many segments a message may have; 0 is any number.
func (s Settings) segments() int {
	n, _ := strconv.Atoi(s.Segments) // Check has refused what is no number
	return n
}

// Check refuses settings that can't be right, each with a [*channel.SettingError].
func (s Settings) Check() error {
	var faults []error
	fault := func(setting, message string) {
		faults = append(faults, &channel.SettingError{Setting: setting, Message: message})
	}
	if s.Account != "" && !sid.MatchString(s.Account) {
		fault("account", "must be an account's SID: AC and 32 hexadecimal digits, or another gateway's letters and digits")
	}
	if s.From != "" && !isSender(s.From) {
		fault("from", "must be a number such as +15005550006, a short code, a name of up to 11 letters and digits, "+
			"or a messaging service: MG and 32 hexadecimal digits")
	}
	if n, err := strconv.Atoi(s.Segments); s.Segments != "" && (err != nil || n < 1) {
		fault("segments", "must be a number, at least 1")
	}
	if err := httpsend.CheckEndpoint(s.Endpoint, "http", "https"); err != nil {
		fault("endpoint", err.Error())
	}
	return errors.Join(faults...)
}
