package redis

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/script"
)

// movedKey names the events that were moved to the log last, by partition.
const movedKey = recordsPrefix + "events:moved"

// moveScript writes events of a partition to the log, once.
//
//	KEYS[1]  what was moved last, by partition
//	KEYS[2]  the lines of the log that have no numbers yet
//	ARGV[1]  the partition
//	ARGV[2]  the name of these events
//	ARGV[3]… the lines: moment in µs, space, text
//	Result   1
var moveScript = script.NewWhenFull(`
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then return 1 end
redis.call('RPUSH', KEYS[2], unpack(ARGV, 3))
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1`)

// GatherEvents moves events from the partitions, where the scripts that make them happen write them, to the log of
// the deployment. One process at a time may do so. When it dies, another goes on, and no event is moved twice.
func GatherEvents(ctx context.Context, client redis.UniversalClient, agendas *agenda.Agendas) error {
	for partition := range agendas.Partitions() {
		if err := agendas.Events.Each(ctx, partition, func(name string, some []events.Event) error {
			return MoveEvents(ctx, client, partition, name, some)
		}); err != nil {
			return err
		}
	}
	return nil
}

// MoveEvents writes some events of a partition to the log.
func MoveEvents(ctx context.Context, client redis.UniversalClient, partition int, name string, some []events.Event,
) error {
	args := []any{partition, name}
	for i := range some {
		text, err := json.Marshal(&some[i])
		if err != nil {
			return fmt.Errorf("encode an event: %w", err)
		}
		args = append(args, strconv.FormatInt(some[i].At.UnixMicro(), 10)+" "+string(text))
	}
	keys := []string{movedKey, logKeysOf(events.Log).unnumbered}
	if err := moveScript.Run(ctx, client, keys, args...).Err(); err != nil {
		return fmt.Errorf("move events of partition %d to the log: %w", partition, err)
	}
	_, err := NewRecords(client).number(ctx, events.Log)
	return err
}
