package pushtest_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
)

// mutant is a fault of the sound sender.
type mutant struct {
	send    func(ctx context.Context, s *sound, m push.Message) error
	check   func(s *sound, to string) error
	closing func(s *sound) error
	token   string
}

// failing changes every failure.
func failing(change func(m push.Message, e *push.Error) error) mutant {
	return mutant{send: func(ctx context.Context, s *sound, m push.Message) error {
		if e := push.Classify(s.deliver(ctx, m)); e != nil {
			return change(m, e)
		}
		return nil
	}}
}

// reclassing says another class, where nothing else is wrong.
func reclassing(code string, class push.Class) mutant {
	return failing(func(_ push.Message, e *push.Error) error {
		if e.Code == code {
			e.Class = class
		}
		return e
	})
}

// calling changes what the provider gets.
func calling(change func(s *sound, m push.Message) push.Message) mutant {
	return mutant{send: func(ctx context.Context, s *sound, m push.Message) error {
		n := *m.Notification
		m.Notification = &n
		return s.deliver(ctx, change(s, m))
	}}
}

// wrongOutcomes report a wrong outcome.
func wrongOutcomes() map[string]mutant {
	return map[string]mutant{
		"RefusalIsTransient":      reclassing("refused", push.Transient),
		"FailureIsPermanent":      reclassing("failing", push.Permanent),
		"ThrottlingIsTransient":   reclassing("throttled", push.Transient),
		"GoneIsPermanent":         reclassing("gone", push.Permanent),
		"HangUpIsTransient":       reclassing("hangsup", push.Transient),
		"UnreachableIsAmbiguous":  reclassing("unreachable", push.Ambiguous),
		"UnreachableIsPermanent":  reclassing("unreachable", push.Permanent),
		"CancellationIsTransient": reclassing("cancelled", push.Transient),
		"CancellationIsAmbiguous": reclassing("cancelled", push.Ambiguous),
		"BadTargetIsTransient":    reclassing("bad_target", push.Transient),
		"TooLargeIsTransient":     reclassing("too_large", push.Transient),
		"NoClass":                 reclassing("refused", 0),
		"NoSuchClass":             reclassing("hangsup", 99),
		"NoDelay": failing(func(_ push.Message, e *push.Error) error {
			e.RetryAfter = 0
			return e
		}),
		"NoDelayButOfThrottling": failing(func(_ push.Message, e *push.Error) error {
			if e.Class != push.Throttled {
				e.RetryAfter = 0
			}
			return e
		}),
		"DelayOfItsOwn": failing(func(_ push.Message, e *push.Error) error {
			e.RetryAfter = max(e.RetryAfter, time.Second)
			return e
		}),
		"AllUnsent": failing(func(_ push.Message, e *push.Error) error {
			e.Unsent = true
			return e
		}),
		"HangUpIsUnsent": failing(func(_ push.Message, e *push.Error) error {
			e.Unsent = e.Unsent || e.Code == "hangsup"
			return e
		}),
		"CancelledIsUnsent": failing(func(_ push.Message, e *push.Error) error {
			if e.Code == "cancelled" {
				return &push.Error{Class: push.Transient, Code: e.Code, Unsent: true}
			}
			return e
		}),
		"NoneUnsent": failing(func(_ push.Message, e *push.Error) error {
			e.Unsent = false
			return e
		}),
		"NoError":    failing(func(push.Message, *push.Error) error { return nil }),
		"PlainError": failing(func(push.Message, *push.Error) error { return errors.New("it failed") }),
		"NoCode":     failing(func(_ push.Message, e *push.Error) error { e.Code = ""; return e }),
		"CodeOfManyWords": failing(func(_ push.Message, e *push.Error) error {
			e.Code = "the provider said: " + e.Code
			return e
		}),
		"NilInAnInterface": {send: func(ctx context.Context, s *sound, m push.Message) error {
			return push.Classify(s.deliver(ctx, m))
		}},
	}
}

// wrongCalls call the provider too often, too seldom or at the wrong moment.
func wrongCalls() map[string]mutant {
	return map[string]mutant{
		"RetriesFailures": {send: retryOn("failing")},
		"RetriesHangUps":  {send: retryOn("hangsup")},
		"RetriesHangUpsOfOldConnections": {send: func(ctx context.Context, s *sound, m push.Message) error {
			if s.state.calls.Add(1) == 1 {
				return s.deliver(ctx, m)
			}
			return retryOn("hangsup")(ctx, s, m)
		}},
		"RetriesBehindTheBack": {send: func(ctx context.Context, s *sound, m push.Message) error {
			err := s.deliver(ctx, m)
			if e := push.Classify(err); e != nil && e.Class == push.Transient && !e.Unsent {
				s.background.Go(func() { s.provider.Receive(call(m)) })
			}
			return err
		}},
		"SendsTwice": {send: func(ctx context.Context, s *sound, m push.Message) error {
			_ = s.deliver(ctx, m)
			return s.deliver(ctx, m)
		}},
		"SendsNothing": {send: func(context.Context, *sound, push.Message) error { return nil }},
		"DoesNotWait": {send: func(ctx context.Context, s *sound, m push.Message) error {
			s.background.Go(func() { _ = s.deliver(ctx, m) })
			return nil
		}},
		"SendsThoughCancelled": {send: func(ctx context.Context, s *sound, m push.Message) error {
			if ctx.Err() != nil {
				s.provider.Receive(call(m))
			}
			return s.deliver(ctx, m)
		}},
		"IgnoresTheContext": {send: func(ctx context.Context, s *sound, m push.Message) error {
			return s.deliver(over{context.WithoutCancel(ctx), s.provider}, m)
		}},
		"IgnoresDeadlines": {send: func(ctx context.Context, s *sound, m push.Message) error {
			if _, limited := ctx.Deadline(); limited {
				ctx = over{context.WithoutCancel(ctx), s.provider}
			}
			return s.deliver(ctx, m)
		}},
		"FailsForeverAfterAFailure": {send: func(ctx context.Context, s *sound, m push.Message) error {
			if s.state.calls.Load() > 0 {
				return &push.Error{Class: push.Transient, Code: "broken", Unsent: true}
			}
			err := s.deliver(ctx, m)
			if e := push.Classify(err); e != nil && !e.Unsent {
				s.state.calls.Add(1)
			}
			return err
		}},
	}
}

// wrongContents send something other than the message, or refuse what the provider accepts.
func wrongContents() map[string]mutant {
	return map[string]mutant{
		"NoIdentity":  calling(func(_ *sound, m push.Message) push.Message { m.ID = ""; return m }),
		"OneIdentity": calling(func(_ *sound, m push.Message) push.Message { m.ID = "same"; return m }),
		"IdentityPerAttempt": calling(func(_ *sound, m push.Message) push.Message {
			if m.Attempt > 1 {
				m.ID += "#" + strconv.Itoa(m.Attempt)
			}
			return m
		}),
		"NoTitle": calling(func(_ *sound, m push.Message) push.Message { m.Title = ""; return m }),
		"CutsLongBodies": calling(func(_ *sound, m push.Message) push.Message {
			m.Body = m.Body[:min(len(m.Body), 2000)]
			return m
		}),
		"CutsAtNewlines": calling(func(_ *sound, m push.Message) push.Message {
			m.Title, _, _ = strings.Cut(m.Title, "\r\n")
			return m
		}),
		"EscapesTwice": calling(func(_ *sound, m push.Message) push.Message {
			m.Body = strings.ReplaceAll(m.Body, "&", "&amp;")
			return m
		}),
		"LosesData": calling(func(_ *sound, m push.Message) push.Message { m.Data = nil; return m }),
		"MixesMessagesUp": calling(func(s *sound, m push.Message) push.Message {
			if last := s.state.last.Swap(&m); last != nil {
				m.Body = last.Body
			}
			return m
		}),
		"RefusesEmptyContent": {send: refuse(func(m push.Message) bool { return m.Body == "" })},
		"RefusesLargeContent": {send: refuse(func(m push.Message) bool { return len(m.Body) > 3000 })},
		"TakesTooLarge": {send: func(ctx context.Context, s *sound, m push.Message) error {
			if len(m.Body) > room {
				return s.call(ctx, call(m))
			}
			return s.deliver(ctx, m)
		}},
	}
}

// wrongManners change the message, show secrets or leave something behind.
func wrongManners() map[string]mutant {
	return map[string]mutant{
		"ChangesTheTitle": {send: func(ctx context.Context, s *sound, m push.Message) error {
			err := s.deliver(ctx, m)
			if m.Attempt == 3 {
				m.Title = strings.ToUpper(m.Title)
			}
			return err
		}},
		"ChangesTheData": {send: func(ctx context.Context, s *sound, m push.Message) error {
			err := s.deliver(ctx, m)
			if m.Attempt == 3 && len(m.Data) > 1 {
				m.Data[1] = ' ' + m.Data[1]&1
			}
			return err
		}},
		"ShowsTheTitle": failing(func(m push.Message, e *push.Error) error {
			e.Err = fmt.Errorf("send %q", m.Title)
			return e
		}),
		"ShowsTheBody": failing(func(m push.Message, e *push.Error) error { e.Code = m.Body; return e }),
		"ShowsTheData": failing(func(m push.Message, e *push.Error) error {
			e.Err = fmt.Errorf("send %s", m.Data)
			return e
		}),
		"ShowsTheTarget": failing(func(m push.Message, e *push.Error) error {
			e.Err = fmt.Errorf("post %q", m.To)
			return e
		}),
		"ShowsTheCredential": failing(func(_ push.Message, e *push.Error) error {
			e.Err = errors.New("Bearer " + credential)
			return e
		}),
		"HidesTheTargetInACause": failing(func(m push.Message, e *push.Error) error {
			e.Err = errors.Join(errors.New("x"), &quiet{errors.New(m.To)})
			return e
		}),
		"WrapsTheTarget": failing(func(m push.Message, e *push.Error) error {
			return fmt.Errorf("send to %s: %w", m.To, e)
		}),
		"LogsTheBody": {send: func(ctx context.Context, s *sound, m push.Message) error {
			s.log.DebugContext(ctx, "send", "body", m.Body)
			return s.deliver(ctx, m)
		}},
		"LogsTheTarget": {send: func(ctx context.Context, s *sound, m push.Message) error {
			s.log.DebugContext(ctx, "send", "to", m.To)
			return s.deliver(ctx, m)
		}},
		"LeavesAGoroutine": {send: func(ctx context.Context, s *sound, m push.Message) error {
			go func() { <-s.provider.Over() }()
			return s.deliver(ctx, m)
		}},
		"CloseLeavesAGoroutine": {closing: func(s *sound) error {
			go func() { <-s.provider.Over() }()
			return nil
		}},
		"ShowsItsToken": {token: credential},
		"CloseFails":    {closing: func(*sound) error { return errors.New("it does not close") }},
		"CallsBadTargets": {send: func(ctx context.Context, s *sound, m push.Message) error {
			m2 := *m.Notification
			m2.To = "device:" + m.To
			m.Notification = &m2
			return s.deliver(ctx, m)
		}},
		"TakesAnyTarget":   {check: func(*sound, string) error { return nil }},
		"RefusesAnyTarget": {check: func(*sound, string) error { return errors.New("is refused") }},
		"TakesEmptyTargets": {check: func(_ *sound, to string) error {
			if to == "" {
				return nil
			}
			return checkTarget(to)
		}},
		"AsksAboutTargets": {check: func(s *sound, to string) error {
			s.provider.Contact()
			return checkTarget(to)
		}},
		"RepeatsTheTarget": {check: func(_ *sound, to string) error {
			if checkTarget(to) != nil {
				return fmt.Errorf("target %s is wrong", to)
			}
			return nil
		}},
		"RefusesASecondTime": {check: func(s *sound, to string) error {
			if s.state.calls.Add(1) > 1 {
				return errors.New("was there already")
			}
			return checkTarget(to)
		}},
	}
}

// quiet hides its cause from all who do not unwrap it.
type quiet struct{ err error }

func (q *quiet) Error() string { return "quiet" }
func (q *quiet) Unwrap() error { return q.err }

// over is a context that ends only with the case.
type over struct {
	context.Context
	provider *pushtest.Provider
}

func (o over) Done() <-chan struct{} { return o.provider.Over() }

// retryOn retries by itself when a call ends with the code.
func retryOn(code string) func(ctx context.Context, s *sound, m push.Message) error {
	return func(ctx context.Context, s *sound, m push.Message) error {
		err := s.deliver(ctx, m)
		if e := push.Classify(err); e != nil && e.Code == code {
			return s.deliver(ctx, m)
		}
		return err
	}
}

// refuse refuses some messages.
func refuse(which func(push.Message) bool) func(ctx context.Context, s *sound, m push.Message) error {
	return func(ctx context.Context, s *sound, m push.Message) error {
		if which(m) {
			return &push.Error{Class: push.Permanent, Code: "content", Unsent: true}
		}
		return s.deliver(ctx, m)
	}
}

// The suite can fail: it finds the fault of every mutant.
func TestSuiteFindsFaults(t *testing.T) {
	t.Parallel()
	impatient := features
	impatient.Patience = time.Second // mutants that never return would take the patience for a slow machine
	for _, group := range []map[string]mutant{wrongOutcomes(), wrongCalls(), wrongContents(), wrongManners()} {
		for name, m := range group {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for _, c := range pushtest.Cases(impatient) {
					if fails(t, func(tb testing.TB) { c.Run(tb, subject(m)) }) {
						t.Logf("found by %s", c.Name)
						return
					}
				}
				t.Error("no case of the suite finds this fault")
			})
		}
	}
}
