package pushtest_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
)

const (
	// targetSecret and credential must not show.
	targetSecret = "canarytarget77b0"
	credential   = "canarycredential41d8"
	// room is how much content the imagined channel carries: less than the contract's.
	room = 4000
)

// features are all features that a channel can have.
var features = pushtest.Features{
	Channel: channel.Descriptor{Name: "imagined"},
	Kinds: []pushtest.Kind{
		pushtest.Refused, pushtest.Failing, pushtest.Throttled, pushtest.Gone,
		pushtest.Hangs, pushtest.HangsUp, pushtest.Unreachable,
	},
	Delays:     []pushtest.Kind{pushtest.Failing, pushtest.Throttled},
	Content:    true,
	Data:       true,
	MaxContent: room,
}

// sound is a sender without a fault, whose provider is a function call away.
type sound struct {
	provider   *pushtest.Provider
	unplugged  *atomic.Bool
	background *sync.WaitGroup // what a mutant does without its caller
	log        *slog.Logger

	mutant
	state state
}

// state is what some mutants remember from call to call.
type state struct {
	calls atomic.Int64
	last  atomic.Pointer[push.Message]
}

// Send implements [push.Sender].
func (s *sound) Send(ctx context.Context, m push.Message) error {
	if s.send != nil {
		return s.send(ctx, s, m)
	}
	return s.deliver(ctx, m)
}

// CheckContent implements [push.Sender].
func (*sound) CheckContent(*notification.Notification) error { return nil }

// CheckTarget implements [push.Sender].
func (s *sound) CheckTarget(to string) error {
	if s.check != nil {
		return s.check(s, to)
	}
	return checkTarget(to)
}

// Close does only what a mutant does wrong.
func (s *sound) Close() error {
	if s.closing != nil {
		return s.closing(s)
	}
	return nil
}

func checkTarget(to string) error {
	if !strings.HasPrefix(to, "device:") {
		return errors.New("must begin with the scheme device")
	}
	return nil
}

func (s *sound) deliver(ctx context.Context, m push.Message) error {
	switch {
	case ctx.Err() != nil:
		return &push.Error{Class: push.Transient, Code: "cancelled", Unsent: true, Err: ctx.Err()}
	case checkTarget(m.To) != nil:
		return &push.Error{Class: push.Permanent, Code: "bad_target", Unsent: true}
	case len(m.Title)+len(m.Body)+len(m.Data) > room:
		return &push.Error{Class: push.Permanent, Code: "too_large", Unsent: true}
	case s.unplugged.Load():
		return &push.Error{Class: push.Transient, Code: "unreachable", Unsent: true}
	}
	return s.call(ctx, call(m))
}

// call is what the provider reads of a message.
func call(m push.Message) pushtest.Call {
	return pushtest.Call{Identity: "fake/" + m.ID, Title: m.Title, Body: m.Body, Data: m.Data}
}

func (s *sound) call(ctx context.Context, c pushtest.Call) error {
	responded := make(chan pushtest.Response, 1)
	s.background.Go(func() { responded <- s.provider.Receive(c) })
	select {
	case r := <-responded:
		return s.classify(ctx, r)
	case <-ctx.Done():
		return &push.Error{Class: push.Ambiguous, Code: "cancelled"}
	}
}

// classify says what a response means.
func (s *sound) classify(ctx context.Context, r pushtest.Response) error {
	failure := &push.Error{Code: strings.ToLower(r.Kind.String()), RetryAfter: r.RetryAfter}
	switch r.Kind {
	case pushtest.Delivered:
		return nil
	case pushtest.Refused:
		failure.Class = push.Permanent
	case pushtest.Failing, pushtest.Unreachable:
		failure.Class = push.Transient
	case pushtest.Throttled:
		failure.Class = push.Throttled
	case pushtest.Gone:
		failure.Class = push.TargetGone
	case pushtest.HangsUp:
		failure.Class = push.Ambiguous
	case pushtest.Hangs:
		select {
		case <-ctx.Done():
		case <-s.provider.Over():
		}
		failure.Class, failure.Code = push.Ambiguous, "cancelled"
	}
	return failure
}

// subject makes a subject with a mutant as its sender.
func subject(m mutant) func(tb testing.TB, p *pushtest.Provider) pushtest.Subject {
	return func(tb testing.TB, p *pushtest.Provider) pushtest.Subject {
		tb.Helper()
		var unplugged atomic.Bool
		var background sync.WaitGroup
		return pushtest.Subject{
			New: func(log *slog.Logger) push.Sender {
				return &sound{provider: p, unplugged: &unplugged, background: &background, log: log, mutant: m}
			},
			Target:   "device:" + targetSecret,
			Good:     []string{"device:1"},
			Bad:      []string{"", "http://example.com/" + targetSecret, "\x00"},
			Secrets:  []string{targetSecret, credential},
			Identity: func(id string) string { return "fake/" + id },
			Unplug:   func() { unplugged.Store(true) },
			Drain:    background.Wait,
		}
	}
}

// A sender without a fault passes, also with the fewest features.
func TestSoundSenderPasses(t *testing.T) {
	t.Parallel()
	pushtest.Run(t, features, subject(mutant{}))
	t.Run("Plain", func(t *testing.T) {
		t.Parallel()
		fewest := pushtest.Features{Channel: features.Channel, MaxContent: room, AnyTarget: true}
		pushtest.Run(t, fewest, subject(mutant{}))
	})
}
