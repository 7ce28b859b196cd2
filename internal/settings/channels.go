package settings

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/pacer-notify/pacer/internal/push/apns"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/email"
	"github.com/pacer-notify/pacer/internal/push/fcm"
	logsender "github.com/pacer-notify/pacer/internal/push/log"
	"github.com/pacer-notify/pacer/internal/push/ntfy"
	"github.com/pacer-notify/pacer/internal/push/webhook"
	"github.com/pacer-notify/pacer/internal/push/webpush"
)

// Channels are the settings of every channel that pacer has. A channel is registered here: everything else asks
// [Channels.All]. In the settings file the channels may have a section of their own:
//
//	channels:
//	  fcm: {credentials: file:/run/secrets/fcm.json}
//
// The fields of a channel's settings have three tags. credential: the value may be file: and the path of a file that
// holds it. needs: other settings of the channel must be set too. json:"-": the value is never shown.
type Channels struct {
	Webhook webhook.Settings   `embed:"" prefix:"webhook-"`
	Log     logsender.Settings `embed:"" prefix:"log-"`
	FCM     fcm.Settings       `embed:"" prefix:"fcm-"`
	APNs    apns.Settings      `embed:"" prefix:"apns-"`
	WebPush webpush.Settings   `embed:"" prefix:"webpush-"`
	Email   email.Settings     `embed:"" prefix:"email-"`
	Ntfy    ntfy.Settings      `embed:"" prefix:"ntfy-"`
}

// described is implemented by the settings of every channel.
type described interface{ Channel() channel.Descriptor }

// All describes every channel, configured or not.
func (c Channels) All() []channel.Descriptor {
	var all []channel.Descriptor
	for _, settings := range reflect.ValueOf(c).Fields() {
		if of, ok := reflect.TypeAssert[described](settings); ok {
			all = append(all, of.Channel())
		}
	}
	return all
}

// channelSetting is one setting of a channel.
type channelSetting struct {
	// prefix is the channel's, flag the whole name.
	prefix, flag string
	tag          reflect.StructTag
	value        reflect.Value
}

// each lists the settings of all channels, to be read and written.
func (c *Channels) each() []channelSetting {
	var all []channelSetting
	for of, settings := range reflect.ValueOf(c).Elem().Fields() {
		prefix := of.Tag.Get("prefix")
		for field, value := range settings.Fields() {
			all = append(all, channelSetting{prefix, prefix + field.Tag.Get("name"), field.Tag, value})
		}
	}
	return all
}

// isSet tells whether the setting has a value.
func (s channelSetting) isSet() bool { return s.value.Len() > 0 }

// String shows the settings without their secrets.
func (c Channels) String() string {
	var shown []string
	for _, s := range c.each() {
		text := withoutPassword(fmt.Sprint(s.value))
		if s.tag.Get("json") == "-" {
			text = ""
			if s.isSet() {
				text = "<secret>"
			}
		}
		shown = append(shown, s.flag+":"+text)
	}
	return "{" + strings.Join(shown, " ") + "}"
}

// GoString is String, for %#v.
func (c Channels) GoString() string { return c.String() }

// resolve reads credentials from their files, and refuses channels with missing or wrong settings.
func (c Channels) resolve() (Channels, error) {
	var faults []error
	set := map[string]bool{}
	for _, s := range c.each() {
		set[s.flag] = s.isSet()
	}
	for _, s := range c.each() {
		for needed := range strings.SplitSeq(s.tag.Get("needs"), ",") {
			if needed != "" && s.isSet() && !set[s.prefix+needed] {
				faults = append(faults, refuse(s.flag, "needs %s to be set too", flagName(s.prefix+needed)))
			}
		}
		if _, credential := s.tag.Lookup("credential"); credential {
			text := s.value.String()
			faults = append(faults, readCredential(s.flag, &text))
			s.value.SetString(text)
		}
	}
	for of, settings := range reflect.ValueOf(c).Fields() {
		if checked, ok := reflect.TypeAssert[interface{ Check() error }](settings); ok {
			faults = append(faults, refuseSettings(of.Tag.Get("prefix"), checked.Check()))
		}
	}
	for _, channel := range c.All() {
		_, err := LimitsOf(channel)
		faults = append(faults, err)
	}
	return c, errors.Join(faults...)
}

// refuseSettings turns the errors of a channel's settings, one or several joined, into usage errors.
func refuseSettings(prefix string, err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, one := range joined.Unwrap() {
			all = append(all, refuseSettings(prefix, one))
		}
		return errors.Join(all...)
	}
	if wrong, ok := errors.AsType[*channel.SettingError](err); ok {
		return refuse(prefix+wrong.Setting, "%s", wrong.Message)
	}
	return err
}

// LimitsOf reads how often a channel's provider may be called, over all processes.
func LimitsOf(c channel.Descriptor) ([]RequestLimit, error) {
	return resolveLimits(string(c.Name)+"-limits", c.Limits)
}

// maxCredential is how long a file with a credential may be.
const maxCredential = 64 << 10

// credentialFile begins a credential that is the path of a file with it.
const credentialFile = "file:"

// readCredential is [ReadCredential] for a flag with an environment variable.
func readCredential(flag string, value *string) error { return ReadCredential(flagName(flag), value) }

// ReadCredential replaces file:PATH by what is in the file. The setting is what a refusal names.
func ReadCredential(setting string, value *string) error {
	path, ok := strings.CutPrefix(*value, credentialFile)
	if !ok {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return &UsageError{Setting: setting, Message: "can't be read: " + err.Error()}
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxCredential+1))
	switch {
	case err != nil:
		return &UsageError{Setting: setting, Message: "can't be read: " + err.Error()}
	case len(text) > maxCredential:
		return &UsageError{Setting: setting, Message: fmt.Sprintf("names a file of more than %d bytes", maxCredential)}
	}
	if *value = strings.TrimSpace(string(text)); *value == "" {
		return &UsageError{Setting: setting, Message: "names an empty file"}
	}
	return nil
}
