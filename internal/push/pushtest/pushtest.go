// Package pushtest is the suite that every [push.Sender] passes: what each answer of a provider means, that nothing is sent
// twice or after the end, that the provider can tell a repeat, and that nothing of the content comes to light.
package pushtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// Answer is what a provider does with a delivery.
type Answer uint8

// The answers. Which of them a channel can have is up to its provider.
const (
	Delivers    Answer = iota + 1 // takes it
	Refuses                       // will never take it
	Fails                         // may take it later
	Throttles                     // asks to be left alone for a while, the [RetryAfter]
	TargetGone                    // knows the target no more
	Hangs                         // takes the request and does not answer
	HangsUp                       // takes the request and ends the connection
	Unreachable                   // can't be connected to
)

// RetryAfter is how long a provider that throttles asks to wait.
const RetryAfter = 7 * time.Second

// Call is what a provider was sent.
type Call struct {
	// Identity is that by which the provider tells a repeat; the same at every attempt.
	Identity string
}

// Subject is a sender under test and the provider that it talks to.
type Subject struct {
	Sender push.Sender
	// Channel and Target that the provider serves; BadTargets are refused before anything is accepted.
	Channel    notification.Channel
	Target     string
	BadTargets []string
	// Answer sets what the provider does from now on. Nil when it can only deliver.
	Answer func(Answer)
	// Answers are those that it can give.
	Answers []Answer
	// Calls lists what it was sent. Nil when nobody is.
	Calls func() []Call
	// Logged is all that the sender wrote.
	Logged func() string
}

// canary is in everything that must not come to light.
const canary = "c4n4ry"

// message is one to the target, with canaries for content.
func (s Subject) message(id string, attempt int) push.Message {
	return push.Message{
		Notification: &notification.Notification{
			ID: id, UserID: "ada", Category: "chat", Channel: s.Channel, To: s.Target, Title: canary + " title", Body: canary + " body",
			Data: []byte(`{"k":"` + canary + `"}`), Priority: notification.PriorityNormal, CreatedAt: time.Unix(1_800_000_000, 0),
		},
		Attempt: attempt, AdmittedAt: time.UnixMicro(1_800_000_000_123_456),
	}
}

// Case is one part of the suite.
type Case struct {
	Name string
	Run  func(tb testing.TB, s Subject)
}

// Cases lists what a sender has to pass, each with a [Subject] of its own.
func Cases() []Case {
	return []Case{
		{"AnswersMeanWhatTheyMean", answersMean},
		{"OneCallForOneAttempt", oneCall},
		{"TheSameIdentityAtEveryAttempt", sameIdentity},
		{"NothingAfterTheEnd", nothingAfterTheEnd},
		{"TheDeadlineEndsIt", deadline},
		{"ManyAtOnce", manyAtOnce},
		{"TheMessageStaysAsItIs", messageStays},
		{"NothingComesToLight", nothingComesToLight},
		{"EmptyAndLargeContent", contents},
		{"TargetsAreChecked", targets},
	}
}

// Run runs the suite. It makes a new subject for each case.
func Run(t *testing.T, subject func(tb testing.TB) Subject) {
	t.Helper()
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Run(t, subject(t))
		})
	}
}

// has tells whether the provider can give the answer.
func (s Subject) has(a Answer) bool { return slices.Contains(s.Answers, a) }

// send sends with a deadline, so that nothing hangs for long.
func (s Subject) send(ctx context.Context, m push.Message, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return s.Sender.Send(ctx, m)
}

// patience is longer than any call that is answered takes; hang is how long one that is not is waited for.
const (
	patience = 20 * time.Second
	hang     = 200 * time.Millisecond
)

func answersMean(tb testing.TB, s Subject) {
	for answer, want := range map[Answer]push.Error{
		Refuses: {Class: push.Permanent}, Fails: {Class: push.Transient}, Throttles: {Class: push.Throttled, RetryAfter: RetryAfter},
		TargetGone: {Class: push.TargetGone}, Hangs: {Class: push.Ambiguous}, HangsUp: {Class: push.Ambiguous},
		Unreachable: {Class: push.Transient, Unsent: true},
	} {
		if !s.has(answer) {
			continue
		}
		s.Answer(answer)
		within := patience
		if answer == Hangs {
			within = hang
		}
		err := s.send(tb.Context(), s.message("n1", 1), within)
		got, ok := errors.AsType[*push.Error](err)
		if !ok {
			tb.Errorf("answer %d: %v, want a push.Error", answer, err)
			continue
		}
		if got.Class != want.Class || got.RetryAfter != want.RetryAfter || got.Unsent != want.Unsent || got.Code == "" {
			tb.Errorf("answer %d: %+v, want %+v and a code", answer, got, want)
		}
	}
	if s.Answer != nil {
		s.Answer(Delivers)
	}
	if err := s.send(tb.Context(), s.message("n1", 1), patience); err != nil {
		tb.Errorf("delivered: %v", err)
	}
}

func oneCall(tb testing.TB, s Subject) {
	if s.Calls == nil {
		return
	}
	for _, answer := range append([]Answer{Delivers}, s.Answers...) {
		if answer == Unreachable || answer == Hangs {
			continue
		}
		s.Answer(answer)
		before := len(s.Calls())
		_ = s.send(tb.Context(), s.message("n1", 1), patience) // what it means is another case
		if n := len(s.Calls()) - before; n != 1 {
			tb.Errorf("answer %d: the provider was called %d times", answer, n)
		}
	}
}

func sameIdentity(tb testing.TB, s Subject) {
	if s.Calls == nil {
		return
	}
	for _, m := range []push.Message{s.message("first", 1), s.message("first", 2), s.message("second", 1)} {
		if err := s.send(tb.Context(), m, patience); err != nil {
			tb.Fatal(err)
		}
	}
	calls := s.Calls()
	if len(calls) != 3 || calls[0].Identity == "" || calls[0] != calls[1] || calls[0] == calls[2] {
		tb.Errorf("the provider knows them as %v, want the first twice and the second once", calls)
	}
}

func nothingAfterTheEnd(tb testing.TB, s Subject) {
	ctx, cancel := context.WithCancel(tb.Context())
	cancel()
	got, ok := errors.AsType[*push.Error](s.Sender.Send(ctx, s.message("n1", 1)))
	if !ok || !got.Unsent {
		tb.Errorf("%+v, want an error that says that nothing was sent", got)
	}
	if s.Calls != nil && len(s.Calls()) != 0 {
		tb.Errorf("the provider was sent %v", s.Calls())
	}
}

func deadline(tb testing.TB, s Subject) {
	if !s.has(Hangs) {
		return
	}
	s.Answer(Hangs)
	returned := make(chan error, 1)
	go func() { returned <- s.send(tb.Context(), s.message("n1", 1), hang) }()
	select {
	case err := <-returned:
		if err == nil {
			tb.Error("delivered, though nobody answered")
		}
	case <-time.After(patience):
		tb.Error("it does not return when its time is over")
	}
}

func manyAtOnce(tb testing.TB, s Subject) {
	const n = 64
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if err := s.send(tb.Context(), s.message(fmt.Sprint("n", i), 1), patience); err != nil {
				tb.Errorf("message %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if s.Calls != nil && len(s.Calls()) != n {
		tb.Errorf("the provider was called %d times, want %d", len(s.Calls()), n)
	}
}

func messageStays(tb testing.TB, s Subject) {
	m := s.message("n1", 1)
	before := fmt.Sprintf("%+v", *m.Notification)
	if err := s.send(tb.Context(), m, patience); err != nil {
		tb.Fatal(err)
	}
	if after := fmt.Sprintf("%+v", *m.Notification); after != before {
		tb.Errorf("the message was %s, is %s", before, after)
	}
}

func nothingComesToLight(tb testing.TB, s Subject) {
	for _, answer := range append([]Answer{Delivers}, s.Answers...) {
		if s.Answer != nil {
			s.Answer(answer)
		}
		within := patience
		if answer == Hangs {
			within = hang
		}
		err := s.send(tb.Context(), s.message("n1", 1), within)
		for _, shown := range []string{fmt.Sprint(err), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err)} {
			if strings.Contains(shown, canary) || s.Target != "" && strings.Contains(shown, s.Target) {
				tb.Errorf("answer %d: the error shows what it must not: %s", answer, shown)
			}
		}
	}
	if logged := s.Logged(); strings.Contains(logged, canary) {
		tb.Errorf("the log shows the content: %s", logged)
	}
}

func contents(tb testing.TB, s Subject) {
	empty := s.message("empty", 1)
	empty.Title, empty.Body, empty.Data = "", "", nil
	large := s.message("large", 1)
	large.Title, large.Data = "", nil
	large.Body = strings.Repeat("ü", s.Channel.MaxContentBytes()/2)
	for _, m := range []push.Message{empty, large} {
		if err := s.send(tb.Context(), m, patience); err != nil {
			tb.Errorf("%s: %v", m.ID, err)
		}
	}
}

func targets(tb testing.TB, s Subject) {
	if err := s.Sender.CheckTarget(s.Target); err != nil {
		tb.Errorf("the good target: %v", err)
	}
	for _, bad := range s.BadTargets {
		if s.Sender.CheckTarget(bad) == nil {
			tb.Errorf("%q is taken", bad)
		}
	}
	if s.Calls != nil && len(s.Calls()) != 0 {
		tb.Errorf("checking a target called the provider: %v", s.Calls())
	}
}
