package push_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pacer-notify/pacer/internal/push"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	own := &push.Error{Class: push.Throttled, Code: "429"}
	for name, c := range map[string]struct {
		err  error
		want *push.Error
	}{
		"None":     {nil, nil},
		"Own":      {own, own},
		"Wrapped":  {fmt.Errorf("while sending: %w", own), own},
		"Deadline": {context.DeadlineExceeded, &push.Error{Class: push.Ambiguous, Code: "timeout"}},
		"Other":    {errors.New("odd"), &push.Error{Class: push.Ambiguous, Code: "unknown"}},
	} {
		got := push.Classify(c.err)
		if (got == nil) != (c.want == nil) || got != nil && (got.Class != c.want.Class || got.Code != c.want.Code) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestErrorsReadWell(t *testing.T) {
	t.Parallel()
	cause := errors.New("connection reset")
	for want, err := range map[string]*push.Error{
		"transient (503)":                     {Class: push.Transient, Code: "503"},
		"ambiguous (reset): connection reset": {Class: push.Ambiguous, Code: "reset", Err: cause},
	} {
		if got := err.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if !errors.Is(&push.Error{Class: push.Ambiguous, Err: cause}, cause) {
		t.Error("the cause is not in the chain")
	}
	names := map[string]bool{}
	for class := push.Permanent; class <= push.Ambiguous; class++ {
		names[class.String()] = true
	}
	if len(names) != 5 || names["invalid"] || push.Class(0).String() != "invalid" {
		t.Errorf("names of the classes: %v", names)
	}
}
