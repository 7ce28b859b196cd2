package redis

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/script"
)

//go:embed reserve.lua
var reserveSource string

//go:embed commit.lua
var commitSource string

// reserveScript claims idempotency keys of one partition, and lookScript tells who has them, see reserve.lua;
// commitScript commits them, see commit.lua.
var (
	reserveScript = script.New(reserveSource)
	lookScript    = script.NewWhenFull(reserveSource)
	commitScript  = script.NewWhenFull(commitSource)
)

// acceptTime is how long a request may take to be accepted before a repeat of it may take over.
const acceptTime = 10 * time.Second

// Reserve implements [intake.Store].
func (s *Store) Reserve(ctx context.Context, keys []intake.Key) ([]intake.Reservation, error) {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Key
	}
	reservations := make([]intake.Reservation, len(keys))
	err := s.eachPart(ctx, names, func(ctx context.Context, part []int) error {
		return s.reserve(ctx, reserveScript, keys, part, reservations)
	})
	if err != nil {
		return nil, fmt.Errorf("reserve idempotency keys: %w", err)
	}
	return reservations, nil
}

// eachPart runs a script for the idempotency keys of several partitions at once, for many of one partition together. It
// is given their indexes.
func (s *Store) eachPart(ctx context.Context, keys []string, run func(ctx context.Context, part []int) error) error {
	partitions := map[int][]int{}
	for i, key := range keys {
		partition := s.agendas.PartitionOf(key)
		partitions[partition] = append(partitions[partition], i)
	}
	running, ctx := errgroup.WithContext(ctx)
	running.SetLimit(putters)
	for _, indexes := range partitions {
		running.Go(func() error {
			for part := range slices.Chunk(indexes, putBatch) {
				if err := run(ctx, part); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return running.Wait()
}

// claims are the results of reserve.lua.
var claims = map[string]intake.Claim{
	"new": intake.ClaimNew, "done": intake.ClaimDone, "busy": intake.ClaimBusy, "other": intake.ClaimOther,
}

// reserve reserves the keys that have the given indexes, all of one partition, or looks them up.
func (s *Store) reserve(ctx context.Context, run *script.Script, keys []intake.Key, part []int,
	reservations []intake.Reservation,
) error {
	names, args := make([]string, len(part)), []any{strconv.FormatInt(acceptTime.Microseconds(), 10)}
	for i, index := range part {
		k := keys[index]
		names[i] = s.reservationKey(k.Key)
		args = append(args, k.Fingerprint, k.ID, strconv.FormatInt(k.Life.Milliseconds(), 10))
	}
	reply, err := run.Run(ctx, s.client, names, args...).StringSlice()
	if err != nil {
		return err
	}
	if len(reply) != 3*len(part) {
		return fmt.Errorf("the reply for %d keys has %d fields", len(part), len(reply))
	}
	for i, index := range part {
		claim, ok := claims[reply[3*i]]
		if !ok {
			return fmt.Errorf("unknown reply %q", reply[3*i])
		}
		reservations[index] = intake.Reservation{Claim: claim, ID: reply[3*i+1]}
		if at, err := strconv.ParseInt(reply[3*i+2], 10, 64); err == nil {
			reservations[index].At = time.UnixMicro(at).UTC()
		}
	}
	return nil
}

// Reserved implements [intake.Store]. A key without a life is only looked up.
func (s *Store) Reserved(ctx context.Context, key, fingerprint string) (intake.Reservation, error) {
	reservations := make([]intake.Reservation, 1)
	look := []intake.Key{{Key: key, Fingerprint: fingerprint}}
	if err := s.reserve(ctx, lookScript, look, []int{0}, reservations); err != nil {
		return intake.Reservation{}, fmt.Errorf("look up an idempotency key: %w", err)
	}
	return reservations[0], nil
}

// Commit implements [intake.Store]. A key outlives its notification, so it keeps when that was accepted.
func (s *Store) Commit(ctx context.Context, keys []intake.AcceptedKey) error {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Key
	}
	err := s.eachPart(ctx, names, func(ctx context.Context, part []int) error {
		hashes, moments := make([]string, len(part)), make([]any, len(part))
		for i, index := range part {
			hashes[i], moments[i] = s.reservationKey(keys[index].Key), ""
			if at := keys[index].At; !at.IsZero() {
				moments[i] = strconv.FormatInt(at.UnixMicro(), 10)
			}
		}
		return commitScript.Run(ctx, s.client, hashes, moments...).Err()
	})
	if err != nil {
		return fmt.Errorf("commit idempotency keys: %w", err)
	}
	return nil
}

// Originals implements [intake.Store].
func (s *Store) Originals(ctx context.Context, of []intake.Original) ([]*notification.Notification, error) {
	users, ids := make([]string, len(of)), make([]string, len(of))
	for i, o := range of {
		users[i], ids[i] = o.UserID, o.ID
	}
	states, err := s.agendas.LookupMany(ctx, users, ids)
	if err != nil {
		return nil, err
	}
	originals := make([]*notification.Notification, len(of))
	for i, state := range states {
		if state == nil {
			continue
		}
		if originals[i], err = decode(state.ID, state.Backlog, state.AcceptedAt, state.Payload); err != nil {
			return nil, err
		}
	}
	return originals, nil
}

func (s *Store) reservationKey(key string) string {
	return agenda.PartitionPrefix(s.agendas.PartitionOf(key)) + "k:" + key
}
