package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/plural"
)

const (
	// putBatch is how many notifications one script accepts. A script must not block Redis for long.
	putBatch = 64
	// putters is in how many partitions one call accepts at once.
	putters = 16
)

// Accept implements [intake.Store]. It accepts in several partitions at once, and in each the notifications in order.
func (s *Store) Accept(ctx context.Context, batch []*notification.Notification) ([]intake.Accepted, error) {
	accepted := make([]intake.Accepted, len(batch))
	elsewhere, err := s.claimIDs(ctx, batch)
	if err != nil {
		return nil, err
	}
	partitions := map[int][]int{}
	for i, n := range batch {
		if elsewhere[i] {
			if accepted[i], err = s.elsewhere(ctx, n.ID); err != nil {
				return nil, err
			}
			continue
		}
		partition := s.agendas.PartitionOf(n.UserID)
		partitions[partition] = append(partitions[partition], i)
	}
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
	if err := putting.Wait(); err != nil {
		return nil, err
	}
	return accepted, nil
}

// put accepts the notifications of a batch that have the given indexes, all of one partition.
func (s *Store) put(ctx context.Context, partition int, batch []*notification.Notification, part []int,
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
			SendAt: n.SendAt, ExpiresAt: n.ExpiresAt, CollapseKey: n.CollapseKey, Payload: payload,
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
		if !accepted[index].Known && s.OptedOut(n.UserID, n.Category, n.Channel) {
			// It has been accepted, whether it ends now or when it is granted.
			_ = s.agendas.CancelIn(ctx, partition, n.ID, notification.ReasonOptedOut)
		}
	}
	return nil
}

// acceptedAs turns what an agenda did with a notification into intake's form.
func acceptedAs(n *notification.Notification, placed agenda.Placed) (intake.Accepted, error) {
	a := intake.Accepted{At: placed.AcceptedAt}
	if placed.First == nil {
		return a, nil
	}
	a.Known = true
	first, err := decode(n.ID, dispatch.Backlog{UserID: placed.First.UserID, Category: placed.First.Category},
		placed.AcceptedAt, placed.First.Payload)
	a.First = first
	if placed.First.UserID != n.UserID {
		a.At = time.Time{}
	}
	return a, err
}

// elsewhere is the result for an id that belongs to a notification in another partition, and so to another user.
func (s *Store) elsewhere(ctx context.Context, id string) (intake.Accepted, error) {
	a := intake.Accepted{Known: true}
	view, err := s.View(ctx, id)
	switch {
	case err == nil:
		a.First = &view.Notification
	case !errors.Is(err, notification.ErrNotFound):
		return a, err
	}
	return a, nil
}

// claimIDs makes the ids that producers chose unique over all partitions. It returns, for each notification of the
// batch, whether its id belongs to a notification in another partition already. Ids that pacer made for these requests
// are unique by themselves; their form alone proves nothing, because producers make such ids, too.
func (s *Store) claimIDs(ctx context.Context, batch []*notification.Notification) ([]bool, error) {
	elsewhere := make([]bool, len(batch))
	claims := make([]*redis.StringCmd, len(batch))
	pipe := s.client.Pipeline()
	for i, n := range batch {
		if n.IDMade {
			continue
		}
		key := s.idKey(n.ID)
		life := idLife
		if intake.MadeHere(n.ID) {
			life = newIDLife
		}
		life += max(0, time.Until(n.SendAt))
		pipe.SetNX(ctx, key, strconv.Itoa(s.agendas.PartitionOf(n.UserID)), life)
		claims[i] = pipe.Get(ctx, key)
	}
	if pipe.Len() == 0 {
		return elsewhere, nil
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("claim the ids of %s: %w", plural.Of(len(batch), "notification", "notifications"), err)
	}
	for i, claim := range claims {
		elsewhere[i] = claim != nil && claim.Val() != strconv.Itoa(s.agendas.PartitionOf(batch[i].UserID))
	}
	return elsewhere, nil
}

// idLife is how long after its send_at an id that a producer chose stays claimed. It is longer than a notification can
// wait, be retried and be kept. newIDLife is that of an id that has the form of those that pacer makes. Such an id says
// when it was made: who uses it for two users does so soon. Clients make one for each notification, and 150 bytes of
// each for three months would be more than all else that Redis keeps.
const (
	idLife    = 93 * 24 * time.Hour
	newIDLife = 24 * time.Hour
)

func (s *Store) idKey(id string) string {
	return agenda.PartitionPrefix(s.agendas.PartitionOf(id)) + "i:" + id
}
