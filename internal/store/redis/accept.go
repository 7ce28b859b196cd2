package redis

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
)

const (
	// putBatch is how many notifications one script accepts. A script must not block Redis for long.
	putBatch = 64
	// putters is in how many partitions one call accepts at once.
	putters = 16
)

// accepting keeps new notifications, each once.
type accepting struct {
	agendas *agenda.Agendas
	claims  claims
	// view returns a notification, or [notification.ErrNotFound].
	view func(ctx context.Context, id string) (*notification.View, error)
	// unwanted reports whether the user of a notification has opted out of it.
	unwanted func(*notification.Notification) bool
}

// Accept implements [intake.Store]. It accepts in several partitions at once, and in each the notifications in order.
func (s *accepting) Accept(ctx context.Context, batch []*notification.Notification) ([]intake.Accepted, error) {
	accepted := make([]intake.Accepted, len(batch))
	claims, err := s.claims.claimAll(ctx, batch)
	if err != nil {
		return nil, err
	}
	partitions := map[int][]int{}
	for i, n := range batch {
		if c := claims[i]; c != nil {
			known, err := s.knownByClaim(ctx, n, c)
			if err != nil {
				return nil, err
			}
			if known != nil {
				accepted[i] = *known
				continue
			}
		}
		partition := s.agendas.PartitionOf(n.UserID)
		partitions[partition] = append(partitions[partition], i)
	}
	if err := s.putAll(ctx, partitions, batch, accepted); err != nil {
		return nil, err
	}
	return accepted, s.settleClaims(ctx, batch, claims, accepted)
}

// putAll accepts the notifications of a batch that have the given indexes, by partition.
func (s *accepting) putAll(ctx context.Context, partitions map[int][]int, batch []*notification.Notification,
	accepted []intake.Accepted,
) error {
	var putting errgroup.Group
	putting.SetLimit(putters)
	for partition, indexes := range partitions {
		putting.Go(func() error { // one script after the other, so that a user's notifications keep their order
			for part := range slices.Chunk(indexes, putBatch) {
				if err := s.put(ctx, partition, batch, part, accepted); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return putting.Wait()
}

// knownByClaim is the result for a notification whose claims say that it can't be accepted; nil for others.
func (s *accepting) knownByClaim(ctx context.Context, n *notification.Notification, c *claim,
) (*intake.Accepted, error) {
	switch {
	case c.elsewhere:
		return s.elsewhere(ctx, n.ID)
	case c.name != "" && !c.ours:
		return s.holdsKey(ctx, n, c)
	}
	return nil, nil
}

// holdsKey decides who has the key of a notification that another request claimed before. It gives the notification the
// id of the claim if that was the same request. Else it returns what to say, or nil when the claim has been taken over.
func (s *accepting) holdsKey(ctx context.Context, n *notification.Notification, c *claim) (*intake.Accepted, error) {
	fingerprint, id, at := readHeld(c.held)
	if fingerprint == n.Fingerprint && id != "" {
		if n.IDMade {
			n.ID = id
		}
		return nil, nil
	}
	view, err := s.view(ctx, id)
	switch {
	case err != nil && !errors.Is(err, notification.ErrNotFound):
		return nil, err
	case err == nil && view.IdempotencyKey == n.IdempotencyKey &&
		!intake.KeyIsOver(view.CreatedAt, view.Status.Ended()):
		return &intake.Accepted{Known: true, First: &view.Notification}, nil
	case err != nil && time.Since(at) < claimGrace:
		return &intake.Accepted{Err: intake.ErrKeyReused}, nil
	}
	taken, err := s.claims.takeOver(ctx, n, c)
	if err == nil && !taken {
		return &intake.Accepted{Err: intake.ErrKeyReused}, nil
	}
	return nil, err
}

// settleClaims gives up the claims of keys whose notifications were known by their ids, and accepts what a claim took
// for a repeat although its key is over.
func (s *accepting) settleClaims(ctx context.Context, batch []*notification.Notification, claims map[int]*claim,
	accepted []intake.Accepted,
) error {
	for i, c := range claims {
		n, a, err := batch[i], &accepted[i], error(nil)
		switch {
		case c.name != "" && c.ours && a.Err != nil:
			err = s.claims.release(ctx, c)
		case c.name == "" || !a.Known || a.First == nil:
		case a.First.IdempotencyKey != n.IdempotencyKey:
			if c.ours {
				err = s.claims.release(ctx, c)
			}
		case n.ID != c.made && intake.KeyIsOver(a.First.CreatedAt, true): // if it has ended
			err = s.acceptAgain(ctx, n, c, a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// acceptAgain accepts a notification, under the id with which it came, if the one that has its key is over.
func (s *accepting) acceptAgain(ctx context.Context, n *notification.Notification, c *claim, accepted *intake.Accepted,
) error {
	view, err := s.view(ctx, n.ID)
	if errors.Is(err, notification.ErrNotFound) ||
		err == nil && !intake.KeyIsOver(view.CreatedAt, view.Status.Ended()) {
		return nil
	}
	if err != nil {
		return err
	}
	n.ID = c.made
	if _, err := s.claims.takeOver(ctx, n, c); err != nil { // another repeat may have been faster
		return err
	}
	results, err := s.Accept(ctx, []*notification.Notification{n})
	if err == nil {
		*accepted = results[0]
	}
	return err
}

// put accepts the notifications of a batch that have the given indexes, all of one partition.
func (s *accepting) put(ctx context.Context, partition int, batch []*notification.Notification, part []int,
	accepted []intake.Accepted,
) error {
	entries := make([]agenda.Entry, len(part))
	for i, index := range part {
		n := batch[index]
		payload, err := encode(n)
		if err != nil {
			return err
		}
		entries[i] = agenda.Entry{
			ID: n.ID, UserID: n.UserID, Category: n.Category, Priority: n.Priority,
			SendAt: n.SendAt, ExpiresAt: n.ExpiresAt, CollapseKey: n.CollapseKey, Of: n, Payload: payload,
		}
	}
	placed, err := s.agendas.Accept(ctx, partition, entries)
	if err != nil {
		return err
	}
	for i, index := range part {
		n := batch[index]
		if accepted[index], err = acceptedAs(n, placed[i]); err != nil {
			return err
		}
		if placed[i].Refused {
			rung := s.agendas.SettingsOf(n.UserID, n.Category).Overflow.Refusing()
			accepted[index] = intake.Accepted{Err: &notification.OverflowError{Category: n.Category, Rung: rung}}
			continue
		}
		if !accepted[index].Known && !n.Dropped && s.unwanted(n) {
			// It has been accepted, whether it ends now or when it is granted.
			_ = s.agendas.CancelIn(ctx, partition, n.ID, notification.ReasonOptedOut)
		}
	}
	return nil
}

// acceptedAs turns what an agenda did with a notification into intake's form.
func acceptedAs(n *notification.Notification, placed agenda.Placed) (intake.Accepted, error) {
	if placed.First == nil {
		n.CreatedAt, n.Dropped = placed.AcceptedAt, placed.Dropped
		return intake.Accepted{}, nil
	}
	first, err := decode(n.ID, dispatch.Backlog{UserID: placed.First.UserID, Category: placed.First.Category},
		placed.AcceptedAt, placed.First.Payload)
	if err == nil {
		first.Dropped = placed.Dropped
	}
	return intake.Accepted{Known: true, First: first}, err
}

// elsewhere is the result for an id that belongs to a notification in another partition, and so to another user.
func (s *accepting) elsewhere(ctx context.Context, id string) (*intake.Accepted, error) {
	a := &intake.Accepted{Known: true}
	view, err := s.view(ctx, id)
	switch {
	case err == nil:
		a.First = &view.Notification
	case !errors.Is(err, notification.ErrNotFound):
		return nil, err
	}
	return a, nil
}

// Holder implements [intake.Store].
func (s *accepting) Holder(ctx context.Context, key string) (*notification.Notification, error) {
	id, err := s.claims.holder(ctx, key)
	if err != nil || id == "" {
		return nil, err
	}
	view, err := s.view(ctx, id)
	switch {
	case errors.Is(err, notification.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case view.IdempotencyKey != key || intake.KeyIsOver(view.CreatedAt, view.Status.Ended()):
		return nil, nil
	}
	return &view.Notification, nil
}
