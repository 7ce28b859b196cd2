package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/plural"
	"github.com/pacer-notify/pacer/internal/script"
)

// An id that a producer chose, and an idempotency key, are unique over all partitions. Each has a claim, a key of its
// own on Redis, which is written once, before its notification is accepted: the claim of an id names the partition, the
// claim of an idempotency key the notification. Whoever repeats a request that died in between accepts the notification
// that the claim names, and only once, because its id is the same. Ids that pacer made for these requests are unique by
// themselves; their form alone proves nothing, because producers make such ids, too.

const (
	// claimGrace is for how long a claim keeps its key for a notification that is not there yet.
	claimGrace = time.Minute
	// leastClaim is for how long at least an id that a producer chose stays claimed. A pause may keep a notification
	// for longer than anybody can tell beforehand.
	leastClaim = 7 * 24 * time.Hour
)

// claims writes claims, and reads what others wrote.
type claims struct {
	client  redis.UniversalClient
	agendas *agenda.Agendas
	life    func(*notification.Notification) time.Duration // see [Store.Life]
}

// claim is what is known of a notification's id and idempotency key.
type claim struct {
	made string // the id under which it came
	// elsewhere is true when the id belongs to a notification in another partition, and so to another user.
	elsewhere bool
	// name is the key's on Redis, empty without one; held is what it holds, and ours whether that was written now.
	name, held string
	ours       bool

	of, keeps *redis.StringCmd // the partition that has the id, and what holds the key
	wrote     *redis.BoolCmd
}

// heldBy is what the claim of an idempotency key says: the fingerprint, the id, and when it was claimed.
func heldBy(n *notification.Notification, at time.Time) string {
	return n.Fingerprint + " " + n.ID + " " + strconv.FormatInt(at.UnixMicro(), 10)
}

// readHeld is the reverse of heldBy.
func readHeld(text string) (fingerprint, id string, at time.Time) {
	fields := strings.Split(text, " ")
	if len(fields) != 3 {
		return "", "", time.Time{}
	}
	micros, _ := strconv.ParseInt(fields[2], 10, 64)
	return fields[0], fields[1], time.UnixMicro(micros)
}

// claimAll claims the ids and keys of a batch, in one round trip, and returns the claims by their indexes. Most
// notifications need none.
func (k *claims) claimAll(ctx context.Context, batch []*notification.Notification) (map[int]*claim, error) {
	var claims map[int]*claim
	var pipe redis.Pipeliner
	for i, n := range batch {
		if n.IDMade && n.IdempotencyKey == "" {
			continue
		}
		if claims == nil {
			claims, pipe = map[int]*claim{}, k.client.Pipeline()
		}
		c := &claim{made: n.ID}
		claims[i] = c
		if !n.IDMade {
			name := k.claimName("i:", n.ID)
			pipe.SetNX(ctx, name, strconv.Itoa(k.agendas.PartitionOf(n.UserID)), max(leastClaim, k.claimLife(n)))
			c.of = pipe.Get(ctx, name)
		}
		if n.IdempotencyKey != "" {
			c.name = k.claimName("k:", n.IdempotencyKey)
			c.wrote = pipe.SetNX(ctx, c.name, heldBy(n, time.Now()), k.claimLife(n))
			c.keeps = pipe.Get(ctx, c.name)
		}
	}
	if pipe == nil {
		return nil, nil
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) { // a claim may end between the two commands
		return nil, fmt.Errorf("claim the ids and keys of %s: %w",
			plural.Of(len(batch), "notification", "notifications"), err)
	}
	for i, c := range claims {
		c.elsewhere = c.of != nil && c.of.Val() != strconv.Itoa(k.agendas.PartitionOf(batch[i].UserID))
		if c.keeps != nil {
			c.held, c.ours = c.keeps.Val(), c.wrote.Val()
		}
	}
	return claims, nil
}

// claimLife is how long a claim lasts: beyond what its notification takes that waits for max_defer once, is retried to
// the end and is then kept.
func (k *claims) claimLife(n *notification.Notification) time.Duration {
	life := max(0, time.Until(n.SendAt)) + k.life(n)
	if !n.ExpiresAt.IsZero() {
		life = min(life, max(0, time.Until(n.ExpiresAt)))
	}
	return life + max(intake.KeyLife, k.agendas.Retention())
}

//go:embed takeover.lua
var takeOverSource string

var takeOverScript = script.New(takeOverSource)

// takeOver gives the key of a notification that has lost it to another.
func (k *claims) takeOver(ctx context.Context, n *notification.Notification, c *claim) (bool, error) {
	taken, err := takeOverScript.Run(ctx, k.client, []string{c.name}, c.held, heldBy(n, time.Now()),
		strconv.FormatInt(k.claimLife(n).Milliseconds(), 10)).Int()
	if err != nil {
		return false, fmt.Errorf("claim an idempotency key anew: %w", err)
	}
	return taken == 1, nil
}

// release gives up a claim that was written for a notification whose id was known: it keeps the key that it came with.
func (k *claims) release(ctx context.Context, c *claim) error {
	if err := k.client.Del(ctx, c.name).Err(); err != nil {
		return fmt.Errorf("release an idempotency key: %w", err)
	}
	return nil
}

// holder is the id of the notification for which a key is claimed; empty when it is not.
func (k *claims) holder(ctx context.Context, key string) (string, error) {
	held, err := k.client.Get(ctx, k.claimName("k:", key)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("look up an idempotency key: %w", err)
	}
	_, id, _ := readHeld(held)
	return id, nil
}

// claimName names the claim of an id ("i:") or a key ("k:"), which stands in its own partition.
func (k *claims) claimName(kind, of string) string {
	return keyspace.Prefix(k.agendas.PartitionOf(of)) + kind + of
}
