package settings

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push/apns"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/email"
	"github.com/pacer-notify/pacer/internal/push/fcm"
	logsender "github.com/pacer-notify/pacer/internal/push/log"
	"github.com/pacer-notify/pacer/internal/push/ntfy"
	"github.com/pacer-notify/pacer/internal/push/slack"
	"github.com/pacer-notify/pacer/internal/push/sms"
	"github.com/pacer-notify/pacer/internal/push/teams"
	"github.com/pacer-notify/pacer/internal/push/webhook"
	"github.com/pacer-notify/pacer/internal/push/webpush"
	"github.com/pacer-notify/pacer/internal/secret"
)

// Channels are the settings of every channel that pacer has. A kind of channel is registered here: everything else asks
// [Channels.All]. In the settings file the channels may have a section of their own, and only there a kind may have
// several senders, each with a name:
//
//	channels:
//	  fcm: {credentials: file:/run/secrets/fcm.json}
//	  "fcm:shop": {credentials: file:/run/secrets/shop.json}
//
// The fields of a channel's settings have four tags. credential: the value may be file: and the path of a file that
// holds it. needs: other settings of the channel must be set too. json:"-": the value is never shown. example: a value
// that is accepted; the tests set every setting to it.
type Channels struct {
	Webhook webhook.Settings   `embed:"" prefix:"webhook-"`
	Log     logsender.Settings `embed:"" prefix:"log-"`
	FCM     fcm.Settings       `embed:"" prefix:"fcm-"`
	APNs    apns.Settings      `embed:"" prefix:"apns-"`
	WebPush webpush.Settings   `embed:"" prefix:"webpush-"`
	Email   email.Settings     `embed:"" prefix:"email-"`
	Ntfy    ntfy.Settings      `embed:"" prefix:"ntfy-"`
	Slack   slack.Settings     `embed:"" prefix:"slack-"`
	Teams   teams.Settings     `embed:"" prefix:"teams-"`
	SMS     sms.Settings       `embed:"" prefix:"sms-"`

	// Named are the settings of further senders, by their whole names. Each has the type of its kind's settings.
	Named Named `kong:"-"`
	// AsSet are the same settings with the paths of files instead of what the files held, and Files are these, by
	// channel. Without files there are none.
	AsSet *Channels                             `kong:"-"`
	Files map[notification.Channel]secret.Files `kong:"-"`
}

// Named are settings of senders that have a name, such as fcm:shop.
type Named map[notification.Channel]any

// described is implemented by the settings of every channel.
type described interface{ Channel() channel.Descriptor }

// BeforeApply takes the named senders of the settings file.
func (c *Channels) BeforeApply(named Named) error {
	c.Named = named
	return nil
}

// All describes every channel, configured or not: one of each kind, and those with names.
func (c Channels) All() []channel.Descriptor {
	var all []channel.Descriptor
	for _, s := range c.senders() {
		d, ok := s.describe()
		if !ok {
			continue
		}
		if files, ok := c.Files[d.Name]; ok {
			d.Files, d.Renew = files, c.AsSet.renewing(d.Name)
		}
		all = append(all, d)
	}
	return all
}

// Names lists the names of all channels, in order.
func (c Channels) Names() []string {
	var names []string
	for name := range c.Deliveries() {
		names = append(names, string(name))
	}
	slices.Sort(names)
	return names
}

// Deliveries returns what each channel recommends for its deliveries.
func (c Channels) Deliveries() map[notification.Channel]notification.DeliverySettings {
	all := map[notification.Channel]notification.DeliverySettings{}
	for _, of := range c.All() {
		all[of.Name] = of.Delivery
	}
	return all
}

// renewing describes a channel with what its files hold by then. c are the settings as they were set.
func (c *Channels) renewing(name notification.Channel) func() (channel.Descriptor, error) {
	senders := c.senders()
	of := senders[slices.IndexFunc(senders, func(s sender) bool { return s.name == name })]
	return func() (channel.Descriptor, error) {
		read, err := of.read()
		if err != nil {
			return channel.Descriptor{}, err
		}
		fresh, _ := read.describe()
		return fresh, nil
	}
}

// ChannelOf describes what every deployment knows of a channel with a name, whatever its settings.
func ChannelOf(name notification.Channel) (d channel.Descriptor, known bool) {
	for _, d := range (Channels{}).All() {
		if d.Name == name || d.Name == name.Kind() && checkSenderName(name) == nil {
			d.Name = name
			return d, true
		}
	}
	return channel.Descriptor{}, false
}

// String shows the settings without their secrets.
func (c Channels) String() string {
	var shown []string
	for _, s := range c.senders() {
		for field, value := range s.settings.Fields() {
			text := withoutPassword(fmt.Sprint(value))
			if field.Tag.Get("json") == "-" {
				text = ""
				if value.Len() > 0 {
					text = "<secret>"
				}
			}
			shown = append(shown, s.prefix+field.Tag.Get("name")+":"+text)
		}
	}
	return "{" + strings.Join(shown, " ") + "}"
}

// GoString is String, for %#v.
func (c Channels) GoString() string { return c.String() }

// resolve reads credentials from their files, and refuses channels with missing or wrong settings.
func (c Channels) resolve() (Channels, error) {
	resolved, files := Channels{}, map[notification.Channel]secret.Files{}
	if len(c.Named) > 0 {
		resolved.Named = Named{}
	}
	var faults []error
	for _, s := range c.senders() {
		if paths := s.paths(); len(paths) > 0 {
			files[s.name] = secret.Look(paths...)
		}
		read, err := s.read()
		faults = append(faults, err)
		if s.named {
			resolved.Named[s.name] = read.settings.Interface()
		} else {
			reflect.ValueOf(&resolved).Elem().FieldByIndex(s.field).Set(read.settings)
		}
	}
	if len(files) > 0 {
		resolved.AsSet, resolved.Files = &c, files
	}
	return resolved, errors.Join(faults...)
}

// senders lists the settings of each kind of channel, and then those with names, in order.
func (c Channels) senders() []sender {
	var all []sender
	for field, settings := range reflect.ValueOf(c).Fields() {
		if prefix := field.Tag.Get("prefix"); prefix != "" {
			name := notification.Channel(strings.TrimSuffix(prefix, "-"))
			all = append(all, sender{name: name, prefix: prefix, settings: settings, field: field.Index})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Named)) {
		all = append(all, sender{
			name: name, prefix: namedPrefix(name), settings: reflect.ValueOf(c.Named[name]), named: true,
		})
	}
	return all
}

// LimitsOf reads how often a channel's provider may be called, over all processes.
func LimitsOf(c channel.Descriptor) ([]RequestLimit, error) {
	prefix := string(c.Name) + "-"
	if c.Name.Kind() != c.Name {
		prefix = namedPrefix(c.Name)
	}
	return resolveLimits(prefix+"limits", c.Limits)
}
