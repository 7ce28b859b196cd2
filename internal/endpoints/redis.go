package endpoints

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/script"
)

// Keys on Redis, in the slot of the events that are written with them.
const (
	// endpointsKey is a hash of id → endpoint, removed ones too.
	endpointsKey = events.Slot + "endpoints"
	// idsKey is a sorted set of the ids of those that are not removed, all with the score 0.
	idsKey = events.Slot + "endpoint-ids"
	// urlsKey is a hash of URL → id, with URLs as [Normal] makes them.
	urlsKey = events.Slot + "endpoint-urls"
	// changesKey is a sorted set of ids by the number of their latest change, versionKey the number of the latest.
	changesKey, versionKey = events.Slot + "endpoint-changes", events.Slot + "endpoint-version"
	// removedKey is a sorted set of ids by when they were removed, in seconds.
	removedKey = events.Slot + "endpoints-removed"
)

// forgetAtOnce is how many endpoints that were removed long ago are forgotten when another is added, beside one
// that had its id.
const forgetAtOnce = 100

// saveSource writes an endpoint if it is still as it was read, together with its events. The number of a change is the
// moment in µs, and higher than that of every change before it, so that a server which has lost the latest changes
// numbers no new one like them. Before all else it forgets endpoints that were removed long ago, since an id is free
// once it is forgotten.
//
//	KEYS[1]  endpoints
//	KEYS[2]  ids
//	KEYS[3]  URLs
//	KEYS[4]  changes
//	KEYS[5]  version
//	KEYS[6]  removed
//	KEYS[7]  the stream of events
//	KEYS[8]  the latest sequence number of events
//	KEYS[9]  the history in which it was given
//	ARGV[1]  id
//	ARGV[2]  the endpoint as it was read; empty for a new one
//	ARGV[3]  the endpoint as it shall be
//	ARGV[4]  its URL as it was read; empty for a new one
//	ARGV[5]  its URL as it shall be; empty when it is removed
//	ARGV[6]  how many endpoints there may be
//	ARGV[7]  how long it is known that one was removed, in seconds
//	ARGV[8]… the events
//	Result   'ok', 'changed' (it is not as it was read), 'many', or the id of the endpoint that has the URL or id
var saveSource = events.AppendLua + `
local id, before, after, url_before, url = unpack(ARGV, 1, 5)
local time = redis.call('TIME')
local now = tonumber(time[1])
local long_ago = now - tonumber(ARGV[7])
local forgotten = redis.call('ZRANGEBYSCORE', KEYS[6], '-inf', long_ago, 'LIMIT', 0, ` +
	strconv.Itoa(forgetAtOnce) + `)
if tonumber(redis.call('ZSCORE', KEYS[6], id) or now) <= long_ago then table.insert(forgotten, id) end
for _, old in ipairs(forgotten) do
  redis.call('HDEL', KEYS[1], old)
  redis.call('ZREM', KEYS[4], old)
  redis.call('ZREM', KEYS[6], old)
end
if (redis.call('HGET', KEYS[1], id) or '') ~= before then return before == '' and id or 'changed' end
local owner = url ~= '' and redis.call('HGET', KEYS[3], url)
if owner and owner ~= id then return owner end
if before == '' and redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[6]) then return 'many' end
redis.call('HSET', KEYS[1], id, after)
local number = string.format('%.0f', math.max(now * 1000000 + time[2], (redis.call('GET', KEYS[5]) or 0) + 1))
redis.call('SET', KEYS[5], number)
redis.call('ZADD', KEYS[4], number, id)
if url_before ~= '' and url_before ~= url then redis.call('HDEL', KEYS[3], url_before) end
if url == '' then
  redis.call('ZREM', KEYS[2], id)
  redis.call('ZADD', KEYS[6], now, id)
else
  redis.call('ZADD', KEYS[2], 0, id)
  redis.call('HSET', KEYS[3], url, id)
end
for i = 8, #ARGV do append_event(KEYS[7], KEYS[8], KEYS[9], ARGV[i]) end
return 'ok'`

// addScript adds an endpoint, unless Redis is full; changeScript changes or removes one also then.
var addScript, changeScript = script.New(saveSource), script.NewWhenFull(saveSource)

// Redis keeps endpoints on Redis.
type Redis struct{ client redis.UniversalClient }

// NewRedis makes a store.
func NewRedis(client redis.UniversalClient) *Redis { return &Redis{client} }

// Position implements [Store].
func (r *Redis) Position(ctx context.Context) (int64, time.Time, error) {
	pipe := r.client.Pipeline()
	latest, now := pipe.Get(ctx, versionKey), pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return 0, time.Time{}, fmt.Errorf("look for changes of webhook endpoints: %w", err)
	}
	version, err := latest.Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, time.Time{}, fmt.Errorf("look for changes of webhook endpoints: %w", err)
	}
	return version, now.Val().UTC(), now.Err()
}

// Changes implements [Store].
func (r *Redis) Changes(ctx context.Context, after int64, limit int) ([]Endpoint, error) {
	changed, err := r.client.ZRangeByScoreWithScores(ctx, changesKey, &redis.ZRangeBy{
		Min: "(" + strconv.FormatInt(after, 10), Max: "+inf", Count: int64(limit),
	}).Result()
	if err != nil {
		return nil, fmt.Errorf("read the changes of webhook endpoints: %w", err)
	}
	ids, versions := make([]string, len(changed)), make([]int64, len(changed))
	for i, z := range changed {
		ids[i], _ = z.Member.(string)
		versions[i] = int64(z.Score)
	}
	return r.read(ctx, ids, versions)
}

// read reads endpoints. One that is not there any more counts as removed.
func (r *Redis) read(ctx context.Context, ids []string, versions []int64) ([]Endpoint, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	texts, err := r.client.HMGet(ctx, endpointsKey, ids...).Result()
	if err != nil {
		return nil, fmt.Errorf("read webhook endpoints: %w", err)
	}
	all := make([]Endpoint, len(ids))
	for i := range texts {
		text, ok := texts[i].(string)
		if !ok {
			all[i] = Endpoint{ID: ids[i], Removed: true, Version: versions[i]}
			continue
		}
		if all[i], err = decode([]byte(text), versions[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Get implements [Store].
func (r *Redis) Get(ctx context.Context, id string) (*Endpoint, error) {
	e, _, err := r.get(ctx, id)
	return e, err
}

// get returns an endpoint, and the text of it that is stored.
func (r *Redis) get(ctx context.Context, id string) (*Endpoint, string, error) {
	text, err := r.client.HGet(ctx, endpointsKey, id).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, "", fmt.Errorf("look up a webhook endpoint: %w", err)
	}
	if err != nil {
		return nil, "", ErrNotFound
	}
	e, err := decode([]byte(text), 0)
	if err == nil && e.Removed {
		err = ErrNotFound
	}
	return &e, text, err
}

// List implements [Store].
func (r *Redis) List(ctx context.Context, after string, limit int) ([]Endpoint, error) {
	from := "-"
	if after != "" {
		from = "(" + after
	}
	ids, err := r.client.ZRangeByLex(ctx, idsKey, &redis.ZRangeBy{Min: from, Max: "+", Count: int64(limit)}).Result()
	if err != nil {
		return nil, fmt.Errorf("list the webhook endpoints: %w", err)
	}
	return r.read(ctx, ids, make([]int64, len(ids)))
}

// Add implements [Store].
func (r *Redis) Add(ctx context.Context, e *Endpoint) error {
	_, now, err := r.Position(ctx)
	if err != nil {
		return err
	}
	e.beginAt(now)
	after, err := encode(e)
	if err != nil {
		return err
	}
	return r.save(ctx, addScript, e.ID, "", after, "", Normal(e.URL), nil)
}

// save runs one of the scripts.
func (r *Redis) save(ctx context.Context, with *script.Script, id, before, after, urlBefore, url string,
	happened []events.Event,
) error {
	args := []any{id, before, after, urlBefore, url, MaxEndpoints, int(removedKept.Seconds())}
	for _, e := range happened {
		text, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("encode an event: %w", err)
		}
		args = append(args, text)
	}
	keys := []string{
		endpointsKey, idsKey, urlsKey, changesKey, versionKey, removedKey, events.StreamKey, events.SequenceKey,
		events.HistoryKey,
	}
	result, err := with.Run(ctx, r.client, keys, args...).Text()
	switch {
	case err != nil:
		return fmt.Errorf("write webhook endpoint %s: %w", id, err)
	case result == "ok":
		return nil
	case result == "changed":
		return errTryAgain
	case result == "many":
		return ErrTooMany
	}
	return takenBy(result, id)
}

// Change implements [Store].
func (r *Redis) Change(ctx context.Context, id string, change func(*Endpoint, time.Time) ([]events.Event, error)) (
	*Endpoint, error,
) {
	return retried(func() (*Endpoint, error) {
		e, before, err := r.get(ctx, id)
		if err != nil {
			return nil, err
		}
		now, err := r.client.Time(ctx).Result()
		if err != nil {
			return nil, fmt.Errorf("change a webhook endpoint: %w", err)
		}
		urlBefore := Normal(e.URL)
		happened, err := change(e, now.UTC())
		if errors.Is(err, errUnchanged) {
			return e, nil
		}
		if err != nil {
			return nil, err
		}
		after, err := encode(e)
		if err != nil {
			return nil, err
		}
		url := Normal(e.URL)
		if e.Removed {
			url = ""
		}
		return e, r.save(ctx, changeScript, id, before, after, urlBefore, url, happened)
	})
}

// Remove implements [Store].
func (r *Redis) Remove(ctx context.Context, id string) error {
	_, err := r.Change(ctx, id, removal)
	return err
}

// removal leaves nothing of an endpoint but its id.
func removal(e *Endpoint, _ time.Time) ([]events.Event, error) {
	*e = Endpoint{ID: e.ID, Removed: true}
	return nil, nil
}

// tries is how often a change is tried when others come between.
const tries = 20

// retried tries a change again when another came between.
func retried(change func() (*Endpoint, error)) (e *Endpoint, err error) {
	for range tries {
		if e, err = change(); !errors.Is(err, errTryAgain) {
			return e, err
		}
	}
	return nil, err
}

// beginAt fills in the times of a new endpoint.
func (e *Endpoint) beginAt(now time.Time) {
	if e.CreatedAt.IsZero() {
		e.CreatedAt, e.UpdatedAt, e.CountsFrom = now, now, now
	}
}
