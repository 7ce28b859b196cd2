package intake_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
)

// slots plays agendas in which one goes each second, and fails where a test tells it to.
type slots struct {
	calls  int
	failAt int
	asked  []notification.PromiseRequest
}

func (s *slots) promises(_ context.Context, requests []notification.PromiseRequest) ([]notification.Promise, error) {
	if s.calls++; s.calls == s.failAt {
		return nil, errAway
	}
	s.asked = append(s.asked, requests...)
	promises := make([]notification.Promise, len(requests))
	for i, q := range requests {
		wait := time.Duration(i) * time.Second
		promises[i] = notification.Promise{DeliverAt: now.Add(wait), Place: i + 1, Reason: "limit 1/1s"}
		if q.MaxWait != nil && !q.Accepted && wait > *q.MaxWait {
			promises[i].TooLate = "max_wait " + q.MaxWait.String()
		}
	}
	return promises, nil
}

// promising is a bench whose intake promises.
func promising() (*bench, *slots) {
	b, s := newBench(), &slots{}
	b.Intake = intake.New(intake.Config{
		Store: b.store, Rules: rules{}, Clock: func() time.Time { return b.clock }, Promises: s.promises,
	})
	return b, s
}

// within is a request that asks for a promise, with a key and a longest wait.
func within(key string, wait time.Duration) intake.Request {
	r := keyed(key, "hi")
	r.Promise, r.MaxWait = true, &wait
	return r
}

// What goes too late is refused, with the earliest moment: it is not accepted, and its key is free. The others are
// accepted and promised.
func TestTooLateIsRefused(t *testing.T) {
	t.Parallel()
	b, _ := promising()
	results := b.accept(t, within("a", time.Minute), within("b", 0), keyed("c", "no promise"))
	late, ok := errors.AsType[*notification.TooLateError](results[1].Err)
	if want := (&notification.TooLateError{
		Limit: "max_wait 0s", DeliverAt: now.Add(time.Second), Reason: "limit 1/1s",
	}); !ok || !cmp.Equal(want, late) {
		t.Errorf("the second is refused by %v, want %v", results[1].Err, want)
	}
	if results[0].Err != nil || results[0].Promise == nil || results[2].Err != nil || results[2].Promise != nil {
		t.Errorf("the others: %+v, %+v", results[0], results[2])
	}
	if taken := b.store.holder("b"); taken != nil || len(b.store.fresh) != 2 {
		t.Errorf("accepted %v, one with the key of what is too late: %v", b.store.fresh, taken)
	}
	if again := b.accept(t, within("b", time.Minute)); again[0].Err != nil || again[0].Known {
		t.Errorf("again with more time: %+v", again[0])
	}
}

// A repeat of what was accepted is no new notification, so it can't be too late.
func TestARepeatIsNotTooLate(t *testing.T) {
	t.Parallel()
	b, s := promising()
	first := b.accept(t, within("a", 0))
	for name, request := range map[string]intake.Request{
		"by key": within("a", 0),
		"by id": {
			Notification: notification.Notification{ID: first[0].Notification.ID, UserID: "u-1", Title: "hi"},
			MaxWait:      new(time.Duration),
		},
	} {
		results := b.accept(t, within("other "+name, time.Minute), request)
		if r := results[1]; r.Err != nil || !r.Known || r.Notification.ID != first[0].Notification.ID {
			t.Errorf("a repeat %s: %+v", name, r)
		}
	}
	if !slices.ContainsFunc(s.asked, func(q notification.PromiseRequest) bool { return q.Repeated }) {
		t.Error("nobody was asked when the repeated one goes")
	}
}

// Without the flag and without max_wait nobody is asked.
func TestAcceptingWithoutAPromiseAsksNobody(t *testing.T) {
	t.Parallel()
	b, s := promising()
	r := keyed("a", "hi")
	r.ExpiresAt = now.Add(time.Second)
	if results := b.accept(t, r); results[0].Err != nil || s.calls != 0 {
		t.Errorf("%+v after %d calls", results[0], s.calls)
	}
}

// When it can't be told, nothing is accepted. Once it is accepted, what was told before holds.
func TestPromisesThatFail(t *testing.T) {
	t.Parallel()
	b, s := promising()
	s.failAt = 1
	if _, err := b.Accept(t.Context(), []intake.Request{within("a", 0)}); !errors.Is(err, intake.ErrNoPromise) ||
		len(b.store.fresh) != 0 {
		t.Errorf("before: %v, accepted %v", err, b.store.fresh)
	}
	s.failAt = 3
	results := b.accept(t, within("a", 0))
	if p := results[0].Promise; results[0].Err != nil || p == nil || !p.DeliverAt.Equal(now) {
		t.Errorf("after: %+v", results[0])
	}
	b = newBench()
	if _, err := b.Accept(t.Context(), []intake.Request{within("a", 0)}); !errors.Is(err, intake.ErrNoPromise) {
		t.Errorf("where nobody promises: %v", err)
	}
}
