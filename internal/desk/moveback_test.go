package desk_test

import (
	"context"
	"errors"
	"strings"
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
		refuses             []string
		says, explained     string
		thenSays, thenKnown string // once the channels take everything again, and the move is repeated
	}{
		"Back": {
			refuses: []string{"email"}, says: "over its old channel log: ", explained: "over its old channel",
			thenSays: "over its old channel log: ", thenKnown: "over its old channel",
		},
		"Nowhere": {
			refuses: []string{"email", "log"}, says: "is cancelled, and could not be moved: ",
			explained: "is not known or no longer kept",
			thenKnown: "to move it to another channel, where it goes on as ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, w *world) {
				n := w.accept(func(n *notification.Notification) { n.Category = "slow" })
				m := w.many()
				m.Intake = changing{m.Intake.(*intake.Intake), c.refuses} //nolint:forcetypeassert,errcheck // many makes it
				_, err := m.Move(t.Context(), n.ID, "email")
				if !partly(err, c.says) {
					t.Errorf("the move: %v, want %q", err, c.says)
				}
				w.wantWords("explain", w.explain(n.ID).Standing, "cancelled to move it", c.explained)
				id, err := w.many().Move(t.Context(), n.ID, "email")
				if c.thenSays != "" && !partly(err, c.thenSays) || c.thenSays == "" && (err != nil || id == "") {
					t.Errorf("the move, repeated: %s, %v, want %q", id, err, c.thenSays)
				}
				w.wantWords("explain", w.explain(n.ID).Standing, c.thenKnown+id)
			})
		})
	}
}

// partly reports whether an error says that something else was done.
func partly(err error, says string) bool {
	_, partial := errors.AsType[*desk.PartialError](err)
	return partial && strings.Contains(err.Error(), says)
}
