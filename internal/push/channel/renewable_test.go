package channel_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/secret"
)

// renewing is a channel whose senders note by which of them something was sent, and when they were closed.
type renewing struct {
	credential string // what the file holds

	mu     sync.Mutex
	events []string
}

func (r *renewing) note(event string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event)
}

func (r *renewing) descriptor() channel.Descriptor {
	with := r.credential
	return channel.Descriptor{
		Name: "fcm:shop", Configured: true, Credential: with, PublicKey: "of " + with,
		Open: func(channel.Process) (push.Sender, error) {
			if strings.HasPrefix(with, "bad") {
				return nil, errors.New("the key is none")
			}
			return &sender{of: r, with: with}, nil
		},
		Files: secret.Look("none"),
		Renew: func() (channel.Descriptor, error) { return r.descriptor(), nil },
	}
}

// sender takes as long as the notification's title says.
type sender struct {
	checker

	of   *renewing
	with string
}

// Send implements push.Sender.
func (s *sender) Send(_ context.Context, m push.Message) error {
	takes, err := time.ParseDuration(m.Title)
	if err == nil {
		<-time.After(takes)
	}
	s.of.note("sent by " + s.with)
	return nil
}

// Close ends its connections.
func (s *sender) Close() error {
	s.of.note("closed " + s.with)
	return nil
}

func of(title string) push.Message {
	return push.Message{Notification: &notification.Notification{Title: title}}
}

// Deliveries under way end on the sender that they began with, which is closed after the last of them. Those that begin
// after the change go by the new sender.
func TestAChannelIsRenewedWhileItSends(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &renewing{credential: "one"}
		opened, err := channel.Open([]channel.Descriptor{r.descriptor()}, channel.Process{})
		if err != nil {
			t.Fatal(err)
		}
		var renewed []string
		sources := opened.Sources(func(_ context.Context, d channel.Descriptor) {
			renewed = append(renewed, d.Credential)
		})
		send := func(title string) { _ = opened.Senders["fcm:shop"].Send(t.Context(), of(title)) }
		var sending sync.WaitGroup
		for _, takes := range []string{"1s", "2s"} {
			sending.Go(func() { send(takes) })
		}
		synctest.Wait()
		r.credential = "two"
		if err := sources[0].Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		send("")
		sending.Wait()
		r.credential = "bad"
		if err := sources[0].Renew(t.Context()); err == nil ||
			err.Error() != "the settings of channel fcm:shop: the key is none" {
			t.Errorf("a bad key: %v", err)
		}
		send("")
		r.credential = "three"
		if err := sources[0].Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		if key := opened.PublicKey("fcm:shop"); key != "of three" {
			t.Errorf("the public key is %q", key)
		}
		if err := opened.Close(); err != nil {
			t.Fatal(err)
		}
		if want := []string{
			"sent by two", "sent by one", "sent by one", "closed one", "sent by two", "closed two", "closed three",
		}; !slices.Equal(r.events, want) {
			t.Errorf("it went %q, want %q", r.events, want)
		}
		if want := []string{"two", "three"}; !slices.Equal(renewed, want) {
			t.Errorf("renewed with %q, want %q", renewed, want)
		}
	})
}

// A process that stops closes what was replaced, too, and a sender that comes too late.
func TestARenewedChannelIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &renewing{credential: "one"}
		opened, err := channel.Open([]channel.Descriptor{r.descriptor()}, channel.Process{})
		if err != nil {
			t.Fatal(err)
		}
		source := opened.Sources(func(context.Context, channel.Descriptor) {})[0]
		var sending sync.WaitGroup
		sending.Go(func() { _ = opened.Senders["fcm:shop"].Send(t.Context(), of("1s")) })
		synctest.Wait()
		for _, with := range []string{"two", "three"} {
			r.credential = with
			if err := source.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			if with == "two" {
				if err := opened.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
		sending.Wait()
		if want := []string{"closed two", "closed one", "closed three", "sent by one"}; !slices.Equal(r.events, want) {
			t.Errorf("it went %q, want %q", r.events, want)
		}
	})
}
