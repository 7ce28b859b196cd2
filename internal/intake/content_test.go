package intake_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
)

// A template makes the contents. A repeat under the same key is known, whatever the template makes by then.
func TestATemplateMakesTheContents(t *testing.T) {
	t.Parallel()
	s, made := newStore(), "first"
	in := intake.New(intake.Config{
		Store: s, Rules: rules{},
		Render: func(t *intake.Template, n *notification.Notification) error {
			if t.Name != "welcome" {
				return &notification.FieldError{Field: "template.name", Message: "is unknown"}
			}
			n.Title = made
			return nil
		},
	})
	of := func(name, title string) intake.Request {
		r := request("", title)
		r.IdempotencyKey, r.Template = "k", &intake.Template{Name: name}
		return r
	}
	for _, c := range []struct {
		request intake.Request
		title   string // "" when it is refused
		known   bool
	}{
		{request: of("farewell", "")},
		{request: of("welcome", "a title")},
		{request: of("welcome", ""), title: "first"},
		{request: of("welcome", ""), title: "first", known: true},
	} {
		results, err := in.Accept(t.Context(), []intake.Request{c.request})
		if err != nil {
			t.Fatal(err)
		}
		r := results[0]
		if (r.Err == nil) != (c.title != "") || r.Err == nil && r.Notification.Title != c.title || r.Known != c.known {
			t.Errorf("%+v gives %+v, want the title %q", c.request.Template, r, c.title)
		}
		if c.title != "" {
			made = "second"
		}
	}
	without := newBench().accept(t, of("welcome", ""))[0]
	if faults := notification.FieldErrors(without.Err); len(faults) != 1 || faults[0].Field != "template.name" {
		t.Errorf("without templates: %v", without.Err)
	}
}

// Each notification that is stored has a trace, which ends with what the store said.
func TestATraceEndsWithTheStoresError(t *testing.T) {
	t.Parallel()
	for _, fail := range []string{"", "accept"} {
		s, ended := newStore(), []error(nil)
		s.fail = fail
		in := intake.New(intake.Config{
			Store: s, Rules: rules{},
			Trace: func(_ context.Context, n *notification.Notification) func(error) {
				n.TraceParent = "trace of " + n.Title
				return func(err error) { ended = append(ended, err) }
			},
		})
		bad := request("a b", "bad")
		results, err := in.Accept(t.Context(), []intake.Request{request("", "one"), bad, request("", "two")})
		if len(ended) != 2 || !errors.Is(ended[0], err) || !errors.Is(ended[1], err) {
			t.Errorf("store fails: %q; the traces end with %v", fail, ended)
		}
		if fail == "" && (err != nil || results[2].Notification.TraceParent != "trace of two") {
			t.Errorf("%+v, %v", results[2].Notification, err)
		}
	}
}
