package channel_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push/channel"
)

// checker takes the target "good" and contents without the body "bad".
type checker struct{}

// CheckTarget implements push.Checker.
func (checker) CheckTarget(to string) error {
	if to != "good" {
		return errors.New("is not good")
	}
	return nil
}

// CheckContent implements push.Checker.
func (checker) CheckContent(n *notification.Notification) error {
	if n.Body == "bad" {
		return errors.New("is bad")
	}
	return nil
}

// set has a channel with targets, and one that delivers within the process.
func set() channel.Set {
	return channel.Set{
		"webhook": {Descriptor: channel.Descriptor{Name: "webhook", MaxContent: 9}, Checker: checker{}},
		"log":     {Descriptor: channel.Descriptor{Name: "log", Local: true}, Checker: checker{}},
	}
}

func fields(err error) (names []string) {
	for _, fault := range notification.FieldErrors(err) {
		names = append(names, fault.Field)
	}
	return names
}

func TestNotificationsAreCheckedByTheirChannel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		notification notification.Notification
		want         []string // the faulty fields
	}{
		{name: "Good", notification: notification.Notification{Channel: "webhook", To: "good"}},
		{name: "ToTheUsersDevices", notification: notification.Notification{Channel: "webhook"}},
		{
			name:         "UnknownChannel",
			notification: notification.Notification{Channel: "pigeon", To: "good"}, want: []string{"channel"},
		},
		{
			name:         "TargetAndContent",
			notification: notification.Notification{Channel: "webhook", To: "evil", Body: "bad"},
			want:         []string{"to", "body"},
		},
		{
			name: "OverrideIsNamedAsTheChannel",
			notification: notification.Notification{
				Channel: "webhook", To: "good", Body: "bad", Override: []byte(`{}`),
			},
			want: []string{"webhook"},
		},
		{
			name:         "LocalChannelChecksItsTargetEvenWithoutOne",
			notification: notification.Notification{Channel: "log"}, want: []string{"to"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, fields(set().CheckDelivery(&c.notification))); diff != "" {
				t.Errorf("faulty fields (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDevicesNeedAChannelWithTargets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		device notification.Device
		want   []string // the faulty fields
	}{
		{name: "Good", device: notification.Device{UserID: "ada", ID: "phone", Channel: "webhook", Target: "good"}},
		{
			name:   "UnknownChannel",
			device: notification.Device{UserID: "ada", ID: "phone", Channel: "pigeon", Target: "good"},
			want:   []string{"channel"},
		},
		{
			name:   "ChannelWithoutTargets",
			device: notification.Device{UserID: "ada", ID: "phone", Channel: "log", Target: "good"},
			want:   []string{"channel"},
		},
		{
			name:   "TargetThatTheChannelRefuses",
			device: notification.Device{UserID: "ada", ID: "phone", Channel: "webhook", Target: "evil"},
			want:   []string{"to"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, fields(set().CheckDevice(&c.device))); diff != "" {
				t.Errorf("faulty fields (-want +got):\n%s", diff)
			}
		})
	}
	if err := set().CheckDevice(&notification.Device{Channel: "webhook", Target: "good"}); err == nil {
		t.Error("a device of nobody: want it refused")
	}
}

func TestASetKnowsNamesAndSizes(t *testing.T) {
	t.Parallel()
	if got := set().Names(); !slices.Equal(got, []string{"log", "webhook"}) {
		t.Errorf("names %v, want them in order", got)
	}
	if got := set().MaxContent("webhook"); got != 9 {
		t.Errorf("webhook takes %d bytes, want 9", got)
	}
	if got := set().MaxContent("log"); got != notification.MaxContentBytes {
		t.Errorf("log takes %d bytes, want the default", got)
	}
}
