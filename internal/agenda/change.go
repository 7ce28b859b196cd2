package agenda

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/agenda/reply"
	"github.com/pacer-notify/pacer/internal/notification"
)

// Change is what a notification that waits is to have from now on.
type Change struct {
	ID, UserID, Category string
	// Priority is its place, [notification.Released] before all others: then it stays so.
	Priority notification.Priority
	// NotBefore is when it may go, zero at once; nil has it wait for what it waits for. ExpiresAt is when it ends, zero
	// never.
	NotBefore *time.Time
	ExpiresAt time.Time
	// Payload replaces the payload of which Before is the SHA-1 in hexadecimal; both may be empty.
	Payload, Before string
	// Event is the kind and the detail of a line of its history; empty for none.
	Event string
}

var (
	// ErrBeingSent says that a notification is being sent; it is a [notification.ErrNotWaiting]. Where another store
	// keeps the notifications, it was changed for when it waits again.
	ErrBeingSent = fmt.Errorf("being sent: %w", notification.ErrNotWaiting)
	// ErrOutdated says that a notification has another payload than was read.
	ErrOutdated = errors.New("the notification was changed meanwhile")
)

// Change changes a notification that waits in a partition. Else it returns [notification.ErrNotFound], [ErrBeingSent],
// [ErrOutdated] or, of what has ended, [notification.ErrNotWaiting].
func (a *Agendas) Change(ctx context.Context, partition int, c Change) error {
	bypasses, notBefore := Flag(c.Priority.AtLeast(a.cfg.Settings(c.UserID, c.Category).BypassFrom)), any("")
	if c.NotBefore != nil {
		notBefore = instant(*c.NotBefore)
	}
	answer, err := a.change.Run(ctx, a.Client, a.ScriptKeys(partition), c.ID, number(int64(c.Priority)), bypasses,
		notBefore, instant(c.ExpiresAt), c.Payload, c.Before, c.Event).Slice()
	if err != nil {
		return fmt.Errorf("change notification %s: %w", c.ID, keyspace.Fault(err))
	}
	r := reply.Reader{Fields: answer}
	a.cfg.reportDeferrals(r.List(1))
	switch r.Number(0) {
	case 0:
		return notification.ErrNotWaiting
	case -1:
		return notification.ErrNotFound
	case -2:
		return ErrOutdated
	case -3:
		return ErrBeingSent
	}
	return r.Fault
}
