package redis

import (
	"context"
	"crypto/sha1" //nolint:gosec // tells two payloads apart, as Redis can
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/maintenance"
	"github.com/pacer-notify/pacer/internal/notification"
)

// Change changes a notification that waits. What the change can't be applied to is a [notification.FieldError]; else it
// returns [notification.ErrNotFound] or [notification.ErrNotWaiting].
func (s *Store) Change(ctx context.Context, id string, c notification.Change) error {
	partition, err := s.agendas.Locate(ctx, id)
	if err != nil {
		return err
	}
	for range changeTries {
		if err = s.changeIn(ctx, partition, id, c); !errors.Is(err, agenda.ErrOutdated) {
			return err
		}
	}
	return fmt.Errorf("change notification %s: %w, %d times", id, err, changeTries)
}

func (s *Store) changeIn(ctx context.Context, partition int, id string, c notification.Change) error {
	fields, err := s.agendas.Client.HGetAll(ctx, s.agendas.Prefixes()[partition]+"n:"+id).Result()
	if err != nil {
		return fmt.Errorf("read notification %s: %w", id, err)
	}
	state := s.agendas.ParseState(id, partition, fields)
	switch {
	case len(fields) == 0:
		return notification.ErrNotFound
	case !state.Status.Waiting():
		return notification.ErrNotWaiting
	}
	n, err := decode(id, state.Backlog, state.AcceptedAt, state.Payload)
	if err != nil {
		return err
	}
	if err := c.Apply(n, time.Now()); err != nil {
		return err
	}
	before := sha1.Sum([]byte(state.Payload)) //nolint:gosec // see above
	to := agenda.Change{
		ID: id, UserID: n.UserID, Category: n.Category, Priority: n.Priority, ExpiresAt: n.ExpiresAt,
		Before: hex.EncodeToString(before[:]), Event: c.Event(),
	}
	if c.Waits() {
		to.NotBefore = &n.SendAt
	}
	if c.Release {
		to.Priority = notification.Released
	}
	if to.Payload, err = encode(n); err != nil {
		return err
	}
	return s.agendas.Change(ctx, partition, to)
}

// CancelGroup ends what waits of a user with a group key, and returns how many it ended, also when it fails.
func (s *Store) CancelGroup(ctx context.Context, userID, groupKey string) (int, error) {
	return s.cancelOf(ctx, userID, notification.ReasonCancelled, func(k maintenance.Known) bool {
		return k.GroupKey == groupKey
	})
}
