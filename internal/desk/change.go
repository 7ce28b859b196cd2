package desk

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
)

// The actions that change notifications.
const (
	ActionRetry  = "retry"
	ActionCancel = "cancel"
	ActionMove   = "move"
)

var (
	// waiting and givenUp are the statuses of what can be cancelled, and of what can be sent again.
	waiting = []notification.Status{
		notification.StatusScheduled, notification.StatusQueued, notification.StatusDeferred,
		notification.StatusRetrying,
	}
	givenUp = []notification.Status{notification.StatusFailed, notification.StatusExpired}
)

// changed is what an action did to one notification.
type changed struct {
	// id is that of the notification that goes on instead, and accepted when it was accepted; empty when none does.
	id       string
	accepted time.Time
	// known is true when the action had been done before.
	known bool
}

// since reports whether the action was done no earlier than t, as far as is known: what goes on instead tells.
func (c changed) since(t time.Time) bool { return c.id == "" || !c.accepted.Before(t) }

// Cancel ends a notification that waits.
func (m *Many) Cancel(ctx context.Context, id string) error {
	_, err := m.change(ctx, ActionCancel, id, "")
	return err
}

// Retry sends a notification that failed or expired again, as a new one, and returns the new id. A notification is sent
// again once: to repeat the call returns the same id.
func (m *Many) Retry(ctx context.Context, id string) (string, error) {
	done, err := m.change(ctx, ActionRetry, id, "")
	return done.id, err
}

// Move has a notification that waits, failed or expired go on over another channel, to the user's devices there. It
// returns the new id. Where the channel does not take it any more, a [PartialError] says how it goes on.
func (m *Many) Move(ctx context.Context, id, channel string) (string, error) {
	if err := oneOf("channel", channel, m.Names().Channels); err != nil {
		return "", &RefusalError{Reason: err.Error()}
	}
	done, err := m.change(ctx, ActionMove, id, channel)
	return done.id, err
}

// change takes an action on one notification. It may be repeated: it ends in the same. A [RefusalError] says why
// nothing was changed, a [PartialError] what was instead, any other error that it is unknown what was.
func (m *Many) change(ctx context.Context, action, id, channel string) (changed, error) {
	view, err := m.Store.View(ctx, id)
	if err != nil {
		return changed{}, err
	}
	return m.changeSeen(ctx, action, view, channel, nil)
}

// changeSeen is change for a notification as it was seen, unless the filter no longer selects it.
func (m *Many) changeSeen(ctx context.Context, action string, view *notification.View, channel string,
	f *notification.Filter,
) (changed, error) {
	id := view.ID
	moved := action == ActionMove && view.Status == notification.StatusCancelled &&
		view.Reason == notification.ReasonMoved+successor(view, channel)
	switch {
	case f != nil && action == ActionCancel && view.Status == notification.StatusCancelled:
		return changed{known: true}, nil
	case f != nil && !moved && !f.Matches(view):
		return changed{}, errNoLonger
	case action == ActionCancel:
		return changed{}, m.cancel(ctx, id, notification.ReasonCancelled)
	case action == ActionRetry && slices.Contains(givenUp, view.Status):
		return m.resend(ctx, view, again(view, string(view.Channel)))
	case action == ActionRetry:
		return changed{}, refuse("%s is %s: only failed and expired ones can be sent again", id, view.Status)
	case string(view.Channel) == channel:
		return changed{}, refuse("%s already goes over the channel %s", id, channel)
	case moved:
		return m.finishMove(ctx, view, again(view, channel))
	case slices.Contains(givenUp, view.Status):
		return m.resend(ctx, view, again(view, channel))
	}
	return m.move(ctx, view, channel)
}

// errNoLonger says that a notification is not one of those any more that a job is for.
var errNoLonger = &RefusalError{Reason: "it no longer matches the filter"}

func refuse(format string, args ...any) error {
	return &RefusalError{Reason: fmt.Sprintf(format, args...)}
}

func (m *Many) cancel(ctx context.Context, id, reason string) error {
	return m.refusalOf(ctx, id, m.Store.CancelBecause(ctx, id, reason))
}

// Change changes or releases a notification that waits.
func (m *Many) Change(ctx context.Context, id string, c notification.Change) error {
	err := m.Store.Change(ctx, id, c)
	if len(notification.FieldErrors(err)) > 0 {
		return &RefusalError{Reason: err.Error(), Err: err}
	}
	return m.refusalOf(ctx, id, err)
}

// refusalOf says what became of a notification that does not wait any more. Other errors it returns as they are.
func (m *Many) refusalOf(ctx context.Context, id string, err error) error {
	if errors.Is(err, notification.ErrNotWaiting) {
		if view, viewErr := m.Store.View(ctx, id); viewErr == nil {
			err = &notification.NotWaitingError{ID: id, Status: view.Status}
		}
		return &RefusalError{Reason: err.Error(), Err: err}
	}
	return err
}

// move cancels a notification that waits, and accepts it over another channel. What would be refused there is not
// cancelled. The reason of the cancellation names the new id: whoever finds the one cancelled and the other not
// accepted, because a process died in between, finishes the move.
func (m *Many) move(ctx context.Context, view *notification.View, channel string) (changed, error) {
	next := again(view, channel)
	refused, err := m.Intake.Check(ctx, intake.Request{Notification: next})
	if err != nil {
		return changed{}, err
	}
	if refused != nil {
		return changed{}, refuse("%s can't be moved: %v", view.ID, refused)
	}
	if err := m.refuseReceived(ctx, view); err != nil {
		return changed{}, err
	}
	if err := m.refuseSuperseded(ctx, view, next.ID); err != nil {
		return changed{}, err
	}
	if err := m.cancel(ctx, view.ID, notification.ReasonMoved+next.ID); err != nil {
		return changed{}, err
	}
	return m.finishMove(ctx, view, next)
}

// finishMove accepts what was cancelled to be moved. Where the channel does not take it any more, it goes on over its
// old one.
func (m *Many) finishMove(ctx context.Context, view *notification.View,
	next notification.Notification,
) (changed, error) {
	back := again(view, string(view.Channel))
	goesBack := func(why any) error {
		return &PartialError{fmt.Sprintf("%s was not moved; it goes on as %s over its old channel %s: %v", view.ID, back.ID, view.Channel, why)}
	}
	if _, err := m.Store.View(ctx, back.ID); err == nil {
		return changed{}, goesBack("the new channel did not take it")
	} else if !errors.Is(err, notification.ErrNotFound) {
		return changed{}, err
	}
	done, refused := m.again(ctx, view, next)
	if _, ok := errors.AsType[*RefusalError](refused); !ok {
		return done, refused
	}
	_, err := m.again(ctx, view, back)
	if _, ok := errors.AsType[*RefusalError](err); ok {
		return changed{}, &PartialError{fmt.Sprintf("%s is cancelled, and could not be moved: %v; nor could it go on over its old channel %s: %v",
			view.ID, refused, view.Channel, err)}
	}
	if err != nil {
		return changed{}, err
	}
	return changed{}, goesBack(refused)
}

// resend sends a notification that was given up again, as another one.
func (m *Many) resend(ctx context.Context, view *notification.View, next notification.Notification) (changed, error) {
	if err := m.refuseReceived(ctx, view); err != nil {
		return changed{}, err
	}
	return m.again(ctx, view, next)
}

// refuseReceived refuses to send what some devices of its user have received: the notification that goes on instead
// goes to all devices.
func (m *Many) refuseReceived(ctx context.Context, view *notification.View) error {
	if view.To != "" {
		return nil
	}
	deliveries, err := m.Store.Deliveries(ctx, &view.Notification)
	if err != nil {
		return err
	}
	for _, d := range deliveries {
		if d.Outcome == notification.OutcomeDelivered {
			return refuse("%s can't be sent again: some of the user's devices have received it", view.ID)
		}
	}
	return nil
}

// refuseSuperseded refuses what would go on instead of a notification when a newer one with its collapse key was
// accepted: it would be the newest, replace the newer one that waits, and bring old content after one that has gone.
func (m *Many) refuseSuperseded(ctx context.Context, view *notification.View, next string) error {
	if view.CollapseKey == "" {
		return nil
	}
	superseded, err := m.Store.Superseded(ctx, &view.Notification)
	if err != nil || !superseded {
		return err
	}
	// The newer one may be what goes on instead, when this is a repeat.
	if _, err := m.Store.View(ctx, next); !errors.Is(err, notification.ErrNotFound) {
		return err
	}
	return refuse("%s can't be sent again: a newer notification with the same collapse key was accepted", view.ID)
}

// again accepts a notification in place of an earlier one.
func (m *Many) again(ctx context.Context, earlier *notification.View, next notification.Notification) (changed, error) {
	if err := m.refuseSuperseded(ctx, earlier, next.ID); err != nil {
		return changed{}, err
	}
	results, err := m.Intake.Accept(ctx, []intake.Request{{Notification: next}})
	if err != nil {
		return changed{}, err
	}
	if refused := results[0].Err; refused != nil {
		return changed{}, refuse("%s can't be sent again: %v", earlier.ID, refused)
	}
	return changed{id: next.ID, accepted: results[0].Notification.CreatedAt, known: results[0].Known}, nil
}

// again makes the notification that goes on in place of another, over a channel. Over its own channel it keeps the
// target and the content in the channel's format; over another it goes to the user's devices. One that still waits
// keeps its times.
func again(v *notification.View, channel string) notification.Notification {
	next := v.Notification
	next.ID, next.IDMade, next.CreatedAt, next.TraceParent = successor(v, channel), true, time.Time{}, ""
	if channel != string(v.Channel) {
		next.Channel, next.To, next.Override = notification.Channel(channel), "", nil
	}
	if slices.Contains(givenUp, v.Status) {
		next.SendAt, next.ExpiresAt = time.Time{}, time.Time{}
	}
	return next
}

// successor is the id of the notification that goes on in place of another, over a channel. It has the form of the ids
// that intake makes, and follows from the old one: so the same step, done twice, accepts one notification.
func successor(v *notification.View, channel string) string {
	sum := sha256.Sum256([]byte("again\x00" + v.ID + "\x00" + channel))
	id := uuid.UUID(sum[:16])
	ms := v.CreatedAt.UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return id.String()
}
