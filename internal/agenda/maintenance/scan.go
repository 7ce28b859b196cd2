package maintenance

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/script"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Known is what a partition knows of a notification, whether it waits or has ended.
type Known struct {
	Partition            int
	ID, UserID, Category string
	GroupKey             string
	// Channel is empty where the payload does not begin with one.
	Channel    string
	Priority   int
	Status     notification.Status
	AcceptedAt time.Time
	// AdmittedAt is the moment of its last admission; 0 if it was never admitted.
	AdmittedAt throttle.Micros
	// Refunded is true when it has ended, and its last admission counts no more: it reached nobody.
	Refunded bool
	// Basis is that of its last admission.
	Basis notification.Basis
	// SendAt and ExpiresAt are zero when they are not set.
	SendAt, ExpiresAt time.Time
}

const (
	// knownBatch is how many keys are listed at a time, knownPause how long it waits after it has read as many: reading
	// them all must not slow others down. knownScript is how many one script reads.
	knownBatch  = 1000
	knownPause  = 20 * time.Millisecond
	knownScript = 500
)

// known reads what is known of notifications: of their payloads, which may be long, the channel and the group key only.
//
//	KEYS[1]  the partition's prefix
//	ARGV[…]  the notifications' keys; on a cluster all of one partition
//	Result   per notification: the fields that it names, the channel, and the group key
var known = script.NewWhenFull(keyspace.Spell(`local result = {}
for i, key in ipairs(ARGV) do
  local f = redis.call('HMGET', key, F.user, F.category, F.priority, F.accepted, F.state, F.admitted, F.not_before,
    F.expires, F.basis, F.refunded, F.payload)
  local payload = f[11] or ''
  f[11], f[12] = string.match(payload, '^{"c":"([^"]*)"') or '', ''
  if string.find(payload, '"g":', 1, true) then
    local is_json, content = pcall(cjson.decode, payload)
    if is_json and type(content.g) == 'string' then f[12] = content.g end
  end
  result[i] = f
end
return result`))

// EachKnown calls do for every notification that some partitions know, slowly; in is asked about each again and again.
// One that changes meanwhile may come twice, or not at all. It scans every key of the servers.
func (m *Agendas) EachKnown(ctx context.Context, in func(partition int) bool, do func(Known) error) error {
	return m.EachKey(ctx, "n:", func(_ redis.UniversalClient, keys []string) error {
		together, wait := map[int][]string{}, time.Duration(0) // by partition; on one server all
		for _, key := range keys {
			partition := m.OfKey(key)
			if partition < 0 || !in(partition) {
				continue
			}
			if m.OneServer {
				partition = 0
			}
			together[partition] = append(together[partition], key)
		}
		for partition, of := range together {
			wait += knownPause * time.Duration(len(of)) / knownBatch
			if err := m.readKnown(ctx, partition, of, do); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
			return nil
		}
	})
}

// EachKey calls do, with some hundred keys of one server at a time, for all keys of the partitions that begin with
// kind, such as "n:". A key may come twice.
func (m *Agendas) EachKey(ctx context.Context, kind string, do func(redis.UniversalClient, []string) error) error {
	return m.eachKey(ctx, kind, knownBatch, do)
}

// eachKey is EachKey with about so many keys at a time.
func (m *Agendas) eachKey(
	ctx context.Context, kind string, n int64, do func(redis.UniversalClient, []string) error,
) error {
	return m.EachServer(ctx, m.All(), func(node redis.UniversalClient) error {
		for cursor := uint64(0); ; {
			keys, next, err := node.Scan(ctx, cursor, "pacer:{push-*}:"+kind+"*", n).Result()
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

// readKnown calls do for the notifications with these keys, on a cluster all of one partition.
func (m *Agendas) readKnown(ctx context.Context, partition int, keys []string, do func(Known) error) error {
	for part := range slices.Chunk(keys, knownScript) {
		args := make([]any, len(part))
		for i, key := range part {
			args[i] = key
		}
		reply, err := known.Run(ctx, m.Client, m.ScriptKeys(partition), args...).Slice()
		if err != nil {
			return fmt.Errorf("read notifications: %w", err)
		}
		for i, one := range reply {
			fields, _ := one.([]any)
			if len(fields) == 0 || fields[0] == nil { // it was forgotten meanwhile
				continue
			}
			_, id, _ := strings.Cut(part[i], "}:n:")
			if err := do(knownOf(m.OfKey(part[i]), id, fields)); err != nil {
				return err
			}
		}
	}
	return nil
}

// knownOf reads the fields that the script known returns.
func knownOf(partition int, id string, fields []any) Known {
	text := func(i int) string { value, _ := fields[i].(string); return value } // absent means empty
	number := func(i int) int64 { n, _ := strconv.ParseInt(text(i), 10, 64); return n }
	moment := func(i int) time.Time {
		if n := number(i); n > 0 {
			return time.UnixMicro(n)
		}
		return time.Time{}
	}
	return Known{
		Partition: partition, ID: id, UserID: text(0), Category: text(1), Priority: int(number(2)),
		AcceptedAt: moment(3), Status: agenda.StatusOf(text(4)),
		AdmittedAt: throttle.Micros(number(5)), SendAt: moment(6), ExpiresAt: moment(7),
		Basis: notification.ParseBasis(text(8)), Refunded: text(9) != "", Channel: text(10),
		GroupKey: text(11),
	}
}
