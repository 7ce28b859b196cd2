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

func TestClassNames(t *testing.T) {
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

func TestErrorReads(t *testing.T) {
	t.Parallel()
	cause := errors.New("connection reset")
	for want, e := range map[string]*push.Error{
		"transient (503)":                     {Class: push.Transient, Code: "503", RetryAfter: time.Minute},
		"ambiguous (reset): connection reset": {Class: push.Ambiguous, Code: "reset", Err: cause},
		"invalid (odd)":                       {Code: "odd", Unsent: true},
	} {
		if e.Error() != want {
			t.Errorf("reads %q, want %q", e, want)
		}
		if errors.Is(e, cause) != (e.Err != nil) {
			t.Errorf("%v: its cause is found: %t", e, errors.Is(e, cause))
		}
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	failure := &push.Error{Class: push.Throttled, Code: "429", RetryAfter: time.Minute, Unsent: true, Err: errors.New("slow down")}
	plain := errors.New("something")
	late := fmt.Errorf("post: %w", context.DeadlineExceeded)
	cancelled := fmt.Errorf("post: %w", context.Canceled)
	for name, c := range map[string]struct {
		err  error
		want *push.Error
	}{
		"Nil":      {nil, nil},
		"Itself":   {failure, failure},
		"Wrapped":  {fmt.Errorf("send: %w", failure), failure},
		"Joined":   {errors.Join(plain, failure), failure},
		"Plain":    {plain, &push.Error{Class: push.Ambiguous, Code: "unknown", Err: plain}},
		"Deadline": {late, &push.Error{Class: push.Ambiguous, Code: "timeout", Err: late}},
		// A class that was thought of counts more than the deadline that caused it.
		"DeadlineWithin": {
			&push.Error{Class: push.Transient, Code: "dial", Unsent: true, Err: late},
			&push.Error{Class: push.Transient, Code: "dial", Unsent: true, Err: late},
		},
		"Cancelled": {cancelled, &push.Error{Class: push.Ambiguous, Code: "unknown", Err: cancelled}},
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

// TestNilErrorIsNoDelivery: a nil *Error in an error says nothing, least of all that the provider took the message.
func TestNilErrorIsNoDelivery(t *testing.T) {
	t.Parallel()
	var none *push.Error
	for _, err := range []error{none, fmt.Errorf("post: %w", none)} {
		got := push.Classify(err)
		if got == nil || got.Class != push.Ambiguous || got.Code != "unknown" || got.Err == nil || got.Unsent {
			t.Errorf("got %v, want ambiguous with a cause", got)
		}
	}
}
