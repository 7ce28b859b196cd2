package push_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
)

func TestEachClassHasAName(t *testing.T) {
	t.Parallel()
	want := map[push.Class]string{
		0: "invalid", push.Permanent: "permanent", push.Transient: "transient", push.Throttled: "throttled",
		push.TargetGone: "target_gone", push.Ambiguous: "ambiguous", push.CredentialsRefused: "credentials_refused",
		push.AlreadyDelivered:     "already_delivered",
		push.AlreadyDelivered + 1: "invalid", 255: "invalid",
	}
	for class, name := range want {
		if class.String() != name {
			t.Errorf("class %d is called %q, want %q", uint8(class), class, name)
		}
	}
	if len(want) != 10 {
		t.Errorf("two classes are the same: %v", want)
	}
}

func TestErrorReadsAsClassCodeAndCause(t *testing.T) {
	t.Parallel()
	cause := errors.New("connection reset")
	for want, e := range map[string]*push.Error{
		"transient (503)":                     {Class: push.Transient, Code: "503", RetryAfter: time.Minute},
		"ambiguous (reset): connection reset": {Class: push.Ambiguous, Code: "reset", Err: cause},
		"invalid (odd)":                       {Code: "odd", Unsent: true},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			if e.Error() != want {
				t.Errorf("reads %q, want %q", e, want)
			}
			if errors.Is(e, cause) != (e.Err != nil) {
				t.Errorf("%v: its cause is found: %t", e, errors.Is(e, cause))
			}
		})
	}
}

func TestClassifyGivesEveryErrorAClass(t *testing.T) {
	t.Parallel()
	failure := &push.Error{
		Class: push.Throttled, Code: "429", RetryAfter: time.Minute, Unsent: true, Err: errors.New("slow down"),
	}
	plain := errors.New("something")
	late := fmt.Errorf("post: %w", context.DeadlineExceeded)
	cancelled := fmt.Errorf("post: %w", context.Canceled)
	for name, c := range map[string]struct {
		err  error
		want *push.Error
	}{
		"Nil":      {},
		"Itself":   {err: failure, want: failure},
		"Wrapped":  {err: fmt.Errorf("send: %w", failure), want: failure},
		"Joined":   {err: errors.Join(plain, failure), want: failure},
		"Plain":    {err: plain, want: &push.Error{Class: push.Ambiguous, Code: "unknown", Err: plain}},
		"Deadline": {err: late, want: &push.Error{Class: push.Ambiguous, Code: "timeout", Err: late}},
		// The class that a sender gave counts, not the deadline that caused the error.
		"DeadlineWithin": {
			err:  &push.Error{Class: push.Transient, Code: "dial", Unsent: true, Err: late},
			want: &push.Error{Class: push.Transient, Code: "dial", Unsent: true, Err: late},
		},
		"Cancelled": {err: cancelled, want: &push.Error{Class: push.Ambiguous, Code: "unknown", Err: cancelled}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := push.Classify(c.err)
			if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if got != nil && !strings.HasPrefix(got.Error(), got.Class.String()+" (") {
				t.Errorf("reads %q", got)
			}
		})
	}
}

// A nil *Error in an error says nothing, least of all that the provider accepted the message.
func TestANilErrorIsNoDelivery(t *testing.T) {
	t.Parallel()
	var none *push.Error
	for _, err := range []error{none, fmt.Errorf("post: %w", none)} {
		got := push.Classify(err)
		if got == nil || got.Class != push.Ambiguous || got.Code != "unknown" || got.Err == nil || got.Unsent {
			t.Errorf("got %v, want ambiguous with a cause", got)
		}
	}
}
