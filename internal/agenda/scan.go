package agenda

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Known is what a partition knows of a notification, whether it waits or has ended.
type Known struct {
	ID, UserID, Category string
	Priority             int
	Status               notification.Status
	AcceptedAt           time.Time
	// AdmittedAt is the moment of its last admission; 0 if it was never admitted.
	AdmittedAt throttle.Micros
	// Refunded is true when it has ended, and its last admission counts no more: it reached nobody.
	Refunded bool
	// Basis is that of its last admission.
	Basis notification.Basis
	// SendAt and ExpiresAt are zero when they are not set.
	SendAt, ExpiresAt time.Time
	Payload           string
}

const (
	// knownBatch is how many keys are read at a time, knownPause the wait in between: reading them all must not slow
	// others down.
	knownBatch = 500
	knownPause = 20 * time.Millisecond
	// knownFields is how many fields are read of each.
	knownFields = 11
)

// EachKnown calls do for every notification that the partitions know, slowly. One that changes meanwhile may come
// twice, or not at all. It scans every key of the servers.
func (a *Agendas) EachKnown(ctx context.Context, do func(Known) error) error {
	return a.EachKey(ctx, "n:", func(node redis.UniversalClient, keys []string) error {
		if err := readKnown(ctx, node, keys, do); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(knownPause):
			return nil
		}
	})
}

// EachKey calls do, with some hundred keys of one server at a time, for all keys of the partitions that begin with
// kind, such as "n:". A key may come twice.
func (a *Agendas) EachKey(ctx context.Context, kind string, do func(redis.UniversalClient, []string) error) error {
	partitions, _ := a.known("")
	return a.eachServer(ctx, partitions, func(node redis.UniversalClient) error {
		for cursor := uint64(0); ; {
			keys, next, err := node.Scan(ctx, cursor, "pacer:{push-*}:"+kind+"*", knownBatch).Result()
			if err != nil {
				return fmt.Errorf("list the keys of the partitions: %w", err)
			}
			if len(keys) > 0 {
				if err := do(node, keys); err != nil {
					return err
				}
			}
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	})
}

// readKnown calls do for the notifications with these keys.
func readKnown(ctx context.Context, node redis.UniversalClient, keys []string, do func(Known) error) error {
	pipe := node.Pipeline()
	read := make([]*redis.SliceCmd, len(keys))
	for i, key := range keys {
		read[i] = pipe.HMGet(ctx, key, "u", "c", "p", "v", "s", "m", "t", "e", "b", "P", "M")
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("read notifications: %w", err)
	}
	for i, key := range keys {
		fields := read[i].Val()
		if len(fields) != knownFields || fields[0] == nil { // it was forgotten meanwhile
			continue
		}
		_, id, _ := strings.Cut(key, "}:n:")
		if err := do(knownOf(id, fields)); err != nil {
			return err
		}
	}
	return nil
}

// knownOf reads the fields that readKnown asks for.
func knownOf(id string, fields []any) Known {
	text := func(i int) string { value, _ := fields[i].(string); return value } // absent means empty
	number := func(i int) int64 { n, _ := strconv.ParseInt(text(i), 10, 64); return n }
	moment := func(i int) time.Time {
		if n := number(i); n > 0 {
			return time.UnixMicro(n)
		}
		return time.Time{}
	}
	return Known{
		ID: id, UserID: text(0), Category: text(1), Priority: int(number(2)),
		AcceptedAt: time.UnixMicro(number(3) + arrivalEpoch), Status: statuses[text(4)],
		AdmittedAt: throttle.Micros(number(5)), SendAt: moment(6), ExpiresAt: moment(7), Payload: text(8),
		Basis: notification.ParseBasis(text(9)), Refunded: text(10) != "",
	}
}
