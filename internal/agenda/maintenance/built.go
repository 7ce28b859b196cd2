package maintenance

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/script"
)

// Built is what a partition remembers of how it was built: its epoch, and the latest mark of the other store. Both are
// empty when it has lost its state.
type Built struct {
	Epoch keyspace.Epoch
	Mark  string
}

// Builds reads how they were built, of the partitions that can be reached. The error joins those of the others.
func (m *Agendas) Builds(ctx context.Context) (map[int]Built, error) {
	pipe := m.Client.Pipeline()
	replies := make([]*redis.SliceCmd, m.Partitions())
	for partition, prefix := range m.Prefixes() {
		replies[partition] = pipe.MGet(ctx, prefix+"epoch", prefix+"mark")
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	builds := map[int]Built{}
	var faults []error
	for partition, reply := range replies {
		if err := reply.Err(); err != nil {
			faults = append(faults, fmt.Errorf("read the epoch of partition %d: %w", partition, err))
			continue
		}
		builds[partition] = builtOf(reply.Val())
	}
	return builds, errors.Join(faults...)
}

// builtOf reads an epoch and a mark.
func builtOf(values []any) Built {
	epoch, _ := values[0].(string)
	mark, _ := values[1].(string)
	return Built{Epoch: keyspace.Epoch(epoch), Mark: mark}
}

// mark replaces marks, unless they have been replaced.
//
//	KEYS[…]  the marks
//	ARGV[1]  the new mark
//	ARGV[…]  for each key the mark that is replaced
//	Result   1
var mark = script.NewWhenFull(`for i, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[i + 1] then redis.call('SET', key, ARGV[1]) end
end
return 1`)

// Mark has partitions remember a mark of the other store, unless they remember another one by now than is given here.
func (m *Agendas) Mark(ctx context.Context, replaced map[int]string, latest string) error {
	var keys []string
	args := []any{latest}
	send := func() error {
		if len(keys) == 0 {
			return nil
		}
		err := mark.Run(ctx, m.Client, keys, args...).Err()
		if keys, args = nil, args[:1]; err != nil {
			return fmt.Errorf("note the latest mark of Postgres in Redis: %w", err)
		}
		return nil
	}
	for partition, before := range replaced {
		keys, args = append(keys, m.Prefixes()[partition]+"mark"), append(args, before)
		if !m.OneServer {
			if err := send(); err != nil {
				return err
			}
		}
	}
	return send()
}
