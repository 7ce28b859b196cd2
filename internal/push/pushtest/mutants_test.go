package pushtest_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
)

// sender is one in memory, and its provider, with faults that the suite must find.
type sender struct {
	mu      sync.Mutex
	answer  pushtest.Answer
	calls   []pushtest.Call
	logged  strings.Builder
	mutated string
}

// Send implements [push.Sender].
func (s *sender) Send(ctx context.Context, m push.Message) error {
	if ctx.Err() != nil && s.mutated != "sends after the end" {
		return &push.Error{Class: push.Transient, Code: "cancelled", Unsent: true}
	}
	s.mu.Lock()
	answer := s.answer
	if answer != pushtest.Unreachable {
		s.call(m)
	}
	s.mu.Unlock()
	switch answer {
	case pushtest.Refuses:
		return &push.Error{Class: push.Permanent, Code: "400", Err: s.cause(m)}
	case pushtest.Fails:
		if s.mutated == "wrong class" {
			return &push.Error{Class: push.Permanent, Code: "502"}
		}
		return &push.Error{Class: push.Transient, Code: "502"}
	case pushtest.Throttles:
		if s.mutated == "forgets the wait" {
			return &push.Error{Class: push.Throttled, Code: "429"}
		}
		return &push.Error{Class: push.Throttled, Code: "429", RetryAfter: pushtest.RetryAfter}
	case pushtest.Hangs:
		<-ctx.Done()
		return &push.Error{Class: push.Ambiguous, Code: "timeout", Unsent: s.mutated == "says unsent"}
	case pushtest.Unreachable:
		return &push.Error{Class: push.Transient, Code: "refused", Unsent: s.mutated != "does not say unsent"}
	case pushtest.Delivers, pushtest.TargetGone, pushtest.HangsUp:
	}
	return nil
}

func (s *sender) cause(m push.Message) error {
	if s.mutated == "shows the content" {
		return fmt.Errorf("refused %q", m.Body)
	}
	return nil
}

func (s *sender) call(m push.Message) {
	identity := m.ID
	if s.mutated == "another identity each time" {
		identity = fmt.Sprint(m.ID, "-", m.Attempt)
	}
	s.calls = append(s.calls, pushtest.Call{Identity: identity})
	switch s.mutated {
	case "calls twice":
		s.calls = append(s.calls, pushtest.Call{Identity: identity})
	case "changes the message":
		m.Title = ""
	case "logs the content":
		s.logged.WriteString(m.Title)
	}
}

// CheckTarget implements [push.Sender].
func (s *sender) CheckTarget(to string) error {
	if s.mutated == "takes any target" || to != "" {
		return nil
	}
	return fmt.Errorf("is required")
}

func subject(mutated string) pushtest.Subject {
	s := &sender{mutated: mutated}
	return pushtest.Subject{
		Sender: s, Channel: notification.ChannelLog, Target: "target", BadTargets: []string{""},
		Answer: func(a pushtest.Answer) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.answer = a
		},
		Answers: []pushtest.Answer{pushtest.Refuses, pushtest.Fails, pushtest.Throttles, pushtest.Hangs, pushtest.Unreachable},
		Calls: func() []pushtest.Call {
			s.mu.Lock()
			defer s.mu.Unlock()
			return append([]pushtest.Call{}, s.calls...)
		},
		Logged: func() string {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.logged.String()
		},
	}
}

// notes is a [testing.TB] that only takes notes.
type notes struct {
	testing.TB
	mu     sync.Mutex
	faults []string
}

// Helper implements [testing.TB].
func (*notes) Helper() {}

// Error implements [testing.TB].
func (n *notes) Error(args ...any) { n.note(fmt.Sprint(args...)) }

// Errorf implements [testing.TB].
func (n *notes) Errorf(format string, args ...any) { n.note(fmt.Sprintf(format, args...)) }

// Fatal implements [testing.TB].
func (n *notes) Fatal(args ...any) { n.note(fmt.Sprint(args...)) }

func (n *notes) note(fault string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults = append(n.faults, fault)
}

func TestASenderWithoutFaultsPasses(t *testing.T) {
	t.Parallel()
	pushtest.Run(t, func(testing.TB) pushtest.Subject { return subject("") })
}

func TestEveryFaultIsFound(t *testing.T) {
	t.Parallel()
	for _, mutated := range []string{
		"sends after the end", "wrong class", "forgets the wait", "says unsent", "does not say unsent", "shows the content",
		"another identity each time", "calls twice", "changes the message", "logs the content", "takes any target",
	} {
		t.Run(mutated, func(t *testing.T) {
			t.Parallel()
			found := &notes{TB: t}
			for _, c := range pushtest.Cases() {
				c.Run(found, subject(mutated))
			}
			if len(found.faults) == 0 {
				t.Error("the suite found nothing")
			}
		})
	}
}
