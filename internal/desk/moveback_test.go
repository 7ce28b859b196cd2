package desk_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
)

// changing is an intake that refuses some channels by the time at which something is accepted, and had allowed them
// when it was asked.
type changing struct {
	*intake.Intake
	refuses []string
}

// Accept implements [desk.Intake].
func (c changing) Accept(ctx context.Context, batch []intake.Request) ([]intake.Result, error) {
	for _, channel := range c.refuses {
		if channel == string(batch[0].Channel) {
			return []intake.Result{{Err: errors.New(channel + " is gone")}}, nil
		}
	}
	return c.Intake.Accept(ctx, batch)
}

// A move that the other channel no longer takes has changed something, and everybody is told what: the operator, also
// when the move is repeated, and whoever asks what became of the notification.
func TestAMoveThatGoesBackIsToldTruly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refuses []string
		goesOn  bool // once the channels take everything again, and the move is repeated
	}{
		"Back": {refuses: []string{"email"}}, "Nowhere": {refuses: []string{"email", "log"}, goesOn: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, w *world) {
				n := w.accept(func(n *notification.Notification) { n.Category = "slow" })
				m := w.many()
				m.Intake = changing{m.Intake.(*intake.Intake), c.refuses} //nolint:forcetypeassert,errcheck // many makes it
				_, err := m.Move(t.Context(), n.ID, "email")
				if _, partly := errors.AsType[*desk.PartialError](err); !partly {
					t.Errorf("the move: %v", err)
				}
				w.says("the move", fmt.Sprint(err, "; ", w.explain(n.ID).Standing))
				id, err := w.many().Move(t.Context(), n.ID, "email")
				if _, partly := errors.AsType[*desk.PartialError](err); partly == c.goesOn || (id != "") != c.goesOn {
					t.Errorf("the move, repeated: %s, %v", id, err)
				}
				w.says("the move, repeated", fmt.Sprint(err, "; ", w.explain(n.ID).Standing))
			})
		})
	}
}
