package settings

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push/channel"
)

// sender has the settings of one channel: the one of a kind, or one with a name.
type sender struct {
	name notification.Channel
	// prefix stands before the name of a setting in refusals.
	prefix   string
	settings reflect.Value
	named    bool
	field    []int // where [Channels] has the settings of a kind
}

// namedPrefix stands before the settings of a sender with a name, which only the settings file has.
func namedPrefix(name notification.Channel) string { return channelsSection + "." + string(name) + "." }

// senderName is what may stand after the kind and the colon.
var senderName = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// checkSenderName refuses names of senders that can't be used.
func checkSenderName(name notification.Channel) error {
	if _, after, _ := strings.Cut(string(name), ":"); !senderName.MatchString(after) {
		return errors.New("must have a name of 1 to 32 lower-case letters, digits and hyphens after the colon, " +
			"such as fcm:shop")
	}
	return nil
}

// describe describes the channel.
func (s sender) describe() (channel.Descriptor, bool) {
	of, ok := reflect.TypeAssert[described](s.settings)
	if !ok {
		return channel.Descriptor{}, false
	}
	d := of.Channel()
	d.Name = s.name
	return d, true
}

// values are the values of a setting: several where it is a list.
func values(setting reflect.Value) []string {
	if list, ok := reflect.TypeAssert[[]string](setting); ok {
		return list
	}
	return []string{setting.String()}
}

// paths are the files that the credentials stand in.
func (s sender) paths() []string {
	var paths []string
	for field, value := range s.settings.Fields() {
		if _, credential := field.Tag.Lookup("credential"); credential {
			paths = append(paths, pathsIn(values(value)...)...)
		}
	}
	return paths
}

// read reads the credentials from their files, and refuses missing and wrong settings.
func (s sender) read() (sender, error) {
	read := s
	read.settings = reflect.New(s.settings.Type()).Elem()
	read.settings.Set(s.settings)
	set := map[string]bool{}
	for field, value := range s.settings.Fields() {
		set[field.Tag.Get("name")] = value.Len() > 0
	}
	var faults []error
	for field, value := range read.settings.Fields() {
		name := field.Tag.Get("name")
		for needed := range strings.SplitSeq(field.Tag.Get("needs"), ",") {
			if needed != "" && set[name] && !set[needed] {
				faults = append(faults, refuse(s.prefix+name, "needs %s to be set too", flagName(s.prefix+needed)))
			}
		}
		if _, credential := field.Tag.Lookup("credential"); credential {
			faults = append(faults, readCredentials(s.prefix+name, value))
		}
		if strings.HasPrefix(field.Tag.Get("placeholder"), "URL") {
			if err := checkURL(value.String()); err != nil {
				return read, errors.Join(append(faults, refuse(s.prefix+name, "%v", err))...)
			}
		}
	}
	if checked, ok := reflect.TypeAssert[interface{ Check() error }](read.settings); ok {
		faults = append(faults, refuseSettings(s.prefix, checked.Check()))
	}
	if d, ok := read.describe(); ok {
		_, err := LimitsOf(d)
		faults = append(faults, err)
		if s.named && !d.Configured {
			faults = append(faults, &UsageError{
				Setting: strings.TrimSuffix(s.prefix, "."),
				Message: fmt.Sprintf("lacks settings that every %s channel needs: docs/channels.md lists them",
					s.name.Kind()),
			})
		}
	}
	return read, errors.Join(faults...)
}

// readCredentials replaces file:PATH in a setting by what is in the file. In a list, the file holds entries of it.
func readCredentials(flag string, setting reflect.Value) error {
	list, ok := reflect.TypeAssert[[]string](setting)
	if !ok {
		text := setting.String()
		err := readCredential(flag, &text)
		setting.SetString(text)
		return err
	}
	var entries []string
	for _, entry := range list {
		fromFile := strings.HasPrefix(entry, credentialFile)
		if err := readCredential(flag, &entry); err != nil {
			return err
		}
		if fromFile {
			entries = append(entries, splitEntries(entry)...)
		} else {
			entries = append(entries, entry)
		}
	}
	if len(entries) > 0 {
		setting.Set(reflect.ValueOf(entries))
	}
	return nil
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
