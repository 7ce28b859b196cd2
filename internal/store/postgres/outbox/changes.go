package outbox

import (
	"context"
	"errors"
	"strings"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

// Changes tells Redis at once what was changed in Postgres, instead of at the relay's next look.
type Changes struct{ emptier *Emptier }

// NewChanges makes Changes.
func NewChanges(emptier *Emptier) *Changes { return &Changes{emptier} }

// changeNoteSQL takes the note of a change, unless a relay is at work on it.
const changeNoteSQL = "SELECT key, due_at, ids FROM pacer.outbox WHERE key = $1 FOR UPDATE SKIP LOCKED"

// Tell tells Redis of a change that was noted. It waits for Redis for PlacePatience at most: the caller needs only
// Postgres, and what is left is done by the relay. Of two changes the later is told last, since each is read under its
// note's lock.
func (c *Changes) Tell(ctx context.Context, id string) {
	stores := c.emptier.stores
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stores.PlacePatience)
	defer cancel()
	err := stores.DB.InTx(ctx, options(stores), func(tx *limited.Tx) error {
		_, err := c.emptier.tellOf(ctx, tx, &partitionsAway{errs: map[int]error{}}, changeNoteSQL, "^"+id)
		return err
	})
	if err != nil {
		stores.Log.WarnContext(ctx, "changed a notification in Postgres but not in its backlog; the relay will change it there",
			"notification_id", id, "error", err)
	}
}

// isChange reports whether the row notes a change.
func (o *outboxed) isChange() bool { return strings.HasPrefix(o.key, "^") }

// changedIn changes a notification in its agenda as it was changed in the database, and reports whether that is done.
// It is not while the notification is on its way there, or about to be claimed or declined.
func (e *Emptier) changedIn(ctx context.Context, partition int, n *named, away *partitionsAway) bool {
	if away.has(partition) {
		return false
	}
	entry := n.entry()
	to := agenda.Change{
		ID: n.ID, UserID: n.UserID, Category: n.Category, Priority: n.Priority, ExpiresAt: n.ExpiresAt,
	}
	if !n.retrying { // else it waits for its retry
		to.NotBefore = &entry.SendAt
	}
	err := e.stores.Agendas.Change(ctx, partition, to)
	switch {
	case err == nil:
		return true
	case errors.Is(err, agenda.ErrBeingSent):
		return n.sending
	case errors.Is(err, notification.ErrNotFound):
		return false
	case errors.Is(err, notification.ErrNotWaiting): // its agenda has ended it
		return true
	}
	away.note(partition, err)
	return false
}
