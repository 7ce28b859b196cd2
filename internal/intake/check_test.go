package intake_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
)

// A check says what Accept would say, and stores nothing.
func TestACheckRefusesAsAcceptDoes(t *testing.T) {
	t.Parallel()
	s, full, away := newStore(), false, error(nil)
	in := intake.New(intake.Config{
		Store: s, Rules: rules{}, Full: func() bool { return full },
		HasDevice: func(context.Context, string, notification.Channel) (bool, error) { return false, away },
	})
	gossip, addressed, toDevices := request("", "hi"), request("", "hi"), request("", "hi")
	gossip.Category, addressed.To = "gossip", "https://example.com"
	for name, c := range map[string]struct {
		request      intake.Request
		field        string // of the refusal
		fault, store error
		full         bool
	}{
		"right":              {request: addressed},
		"unknown category":   {request: gossip, field: "category"},
		"no device":          {request: toDevices, field: "to"},
		"devices are away":   {request: toDevices, store: errAway, fault: errAway},
		"no room in a store": {request: addressed, full: true, fault: intake.ErrFull},
	} {
		full, away = c.full, c.store
		refused, fault := in.Check(t.Context(), c.request)
		faults := notification.FieldErrors(refused)
		if !errors.Is(fault, c.fault) || (len(faults) > 0) != (c.field != "") ||
			c.field != "" && faults[0].Field != c.field {
			t.Errorf("%s: refused %v, fault %v", name, refused, fault)
		}
	}
	if len(s.accepts) > 0 {
		t.Errorf("%v was stored", s.accepts)
	}
}
