package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/script"
)

// Keys on Redis. All of them, and those of whatever an event is written together with, are in one slot of a cluster.
const (
	// Slot begins the keys.
	Slot = "pacer:{events}:"
	// StreamKey is a stream of events: their ids are SEQUENCE-0. SequenceKey is the latest sequence number.
	// HistoryKey names the server, from its start to its end, that gave that number.
	StreamKey   = Slot + "stream"
	SequenceKey = Slot + "sequence"
	HistoryKey  = Slot + "history"
	// progressPrefix and a receiver make the key of its hash: done, holder, held_until, failing, failing_since.
	progressPrefix = Slot + "progress:"
)

// forgetAtOnce is how many events are looked at to forget those that are old.
const forgetAtOnce = 100

// AppendLua is a function for the scripts that make something happen: append_event(stream, sequence, history, json)
// writes an event, in the place and at the moment that are its. A promoted replica, or a server that restarted, may
// lack the latest events, whose numbers others know already. Whoever asks for what comes after such a number must not
// miss what happens from then on, so as many numbers are left out as events are kept. The run_id tells such a server. A
// master_replid does not: it also changes when a master gets its first replica, and both would leave out the same
// numbers; and it may outlive a restart. The embedded engine tells no run_id, and forgets everything with its process.
var AppendLua = `
local function append_event(stream, sequence, history, event)
  local info, known = redis.pcall('INFO', 'server'), redis.call('GET', history)
  local found = type(info) == 'string' and string.match(info, 'run_id:(%x+)')
  if found and found ~= known then
    redis.call('SET', history, found)
    if known then redis.call('INCRBY', sequence, ` + strconv.Itoa(MaxKept) + `) end
  end
  local number, time = redis.call('INCR', sequence), redis.call('TIME')
  redis.call('XADD', stream, 'MAXLEN', '~', ` + strconv.Itoa(MaxKept) + `, number .. '-0',
    'at', time[1] .. string.format('%06d', time[2]), 'event', event)
end
`

// Redis keeps events on Redis.
type Redis struct{ client redis.UniversalClient }

// NewRedis makes a store.
func NewRedis(client redis.UniversalClient) *Redis { return &Redis{client} }

// After implements [Store].
func (r *Redis) After(ctx context.Context, sequence int64, limit int) ([]Event, error) {
	if sequence == math.MaxInt64 { // there is no number after it
		return nil, nil
	}
	messages, err := r.client.XRangeN(ctx, StreamKey, strconv.FormatInt(sequence+1, 10), "+", int64(limit)).Result()
	if err != nil {
		return nil, fmt.Errorf("read the events: %w", err)
	}
	all := make([]Event, len(messages))
	for i, message := range messages {
		if all[i], err = read(message); err != nil {
			return nil, fmt.Errorf("read event %s: %w", message.ID, err)
		}
	}
	return all, nil
}

// Latest returns the sequence number of the latest event; 0 when there was none.
func (r *Redis) Latest(ctx context.Context) (int64, error) {
	latest, err := r.client.Get(ctx, SequenceKey).Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("look up the latest event: %w", err)
	}
	return latest, nil
}

// read reads one entry of the stream.
func read(message redis.XMessage) (e Event, err error) {
	text, _ := message.Values["event"].(string)
	at, _ := message.Values["at"].(string)
	micros, atErr := strconv.ParseInt(at, 10, 64)
	if err = errors.Join(json.Unmarshal([]byte(text), &e), atErr); err != nil {
		return e, err
	}
	e.At = time.UnixMicro(micros).UTC()
	if _, err := fmt.Sscanf(message.ID, "%d-", &e.Sequence); err != nil {
		return e, err
	}
	return e, nil
}

// progressLua ends the scripts that return how far a receiver has got.
const progressLua = `
local function progress(held)
  local all = redis.call('HMGET', KEYS[1], 'done', 'failing', 'failing_since')
  local since = '0'
  if tonumber(all[2] or 0) > tonumber(all[1] or 0) then since = all[3] end
  return { held, all[1] or '0', since, time[1] .. string.format('%06d', time[2]) }
end
`

// holdScript makes a process the one that sends to a receiver.
//
//	KEYS[1]  the receiver's progress
//	KEYS[2]  the latest sequence number
//	ARGV[1]  the process
//	ARGV[2]  how long it holds, in milliseconds
//	Result   held (1 or 0), done, failing_since, now, the times in microseconds
var holdScript = script.NewWhenFull(`
local time = redis.call('TIME')` + progressLua + `
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
redis.call('HSETNX', KEYS[1], 'done', redis.call('GET', KEYS[2]) or '0')
local holder = redis.call('HMGET', KEYS[1], 'holder', 'held_until')
if holder[1] and holder[1] ~= ARGV[1] and tonumber(holder[2]) > now then return progress('0') end
redis.call('HSET', KEYS[1], 'holder', ARGV[1], 'held_until', string.format('%d', now + tonumber(ARGV[2])))
return progress('1')`)

// Hold implements [Store].
func (r *Redis) Hold(ctx context.Context, receiver, holder string, lease time.Duration) (Progress, bool, error) {
	reply, err := holdScript.Run(ctx, r.client, []string{progressPrefix + receiver, SequenceKey}, holder,
		lease.Milliseconds()).StringSlice()
	if err != nil {
		return Progress{}, false, fmt.Errorf("lock a receiver of events: %w", err)
	}
	p, held, err := progressOf(reply)
	return p, held, err
}

// progressOf reads the result of a script.
func progressOf(reply []string) (Progress, bool, error) {
	if len(reply) != 4 {
		return Progress{}, false, fmt.Errorf("the progress of a receiver has %d fields", len(reply))
	}
	var numbers [3]int64
	for i := range numbers {
		var err error
		if numbers[i], err = strconv.ParseInt(reply[i+1], 10, 64); err != nil {
			return Progress{}, false, fmt.Errorf("read the progress of a receiver: %w", err)
		}
	}
	p := Progress{Done: numbers[0], Now: time.UnixMicro(numbers[2]).UTC()}
	if numbers[1] > 0 {
		p.FailingSince = time.UnixMicro(numbers[1]).UTC()
	}
	return p, reply[0] == "1", nil
}

// doneScript notes how far a receiver has got.
//
//	KEYS[1]  the receiver's progress
//	ARGV[1]  the sequence number
//	Result   1 when that is further, else 0
var doneScript = script.NewWhenFull(`
if tonumber(redis.call('HGET', KEYS[1], 'done') or -1) >= tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'done', ARGV[1])
return 1`)

// Done implements [Store].
func (r *Redis) Done(ctx context.Context, receiver string, sequence int64) error {
	err := doneScript.Run(ctx, r.client, []string{progressPrefix + receiver}, sequence).Err()
	if err != nil {
		return fmt.Errorf("note that an event was received: %w", err)
	}
	return nil
}

// failedScript notes that a receiver did not take an event.
//
//	KEYS[1]  the receiver's progress
//	ARGV[1]  the event's sequence number
//	Result   held (always 0), done, failing_since, now, the times in microseconds
var failedScript = script.NewWhenFull(`
local time = redis.call('TIME')` + progressLua + `
if tonumber(redis.call('HGET', KEYS[1], 'failing') or 0) < tonumber(ARGV[1]) then
  redis.call('HSET', KEYS[1], 'failing', ARGV[1], 'failing_since', time[1] .. string.format('%06d', time[2]))
end
return progress('0')`)

// Failed implements [Store].
func (r *Redis) Failed(ctx context.Context, receiver string, sequence int64) (Progress, error) {
	reply, err := failedScript.Run(ctx, r.client, []string{progressPrefix + receiver}, sequence).StringSlice()
	if err != nil {
		return Progress{}, fmt.Errorf("note that an event was not received: %w", err)
	}
	p, _, err := progressOf(reply)
	return p, err
}

// forgetScript removes some of the oldest events that were kept long enough.
//
//	KEYS[1]  the stream
//	ARGV[1]  for how long events are kept, in seconds
//	ARGV[2]  how many are looked at
//	Result   how many were removed
var forgetScript = script.NewWhenFull(`
local before, removed = tonumber(redis.call('TIME')[1]) - tonumber(ARGV[1]), 0
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', ARGV[2])) do
  if tonumber(entry[2][2]) / 1000000 >= before then break end
  redis.call('XDEL', KEYS[1], entry[1])
  removed = removed + 1
end
return removed`)

// Forget implements [Store].
func (r *Redis) Forget(ctx context.Context) (more bool, err error) {
	removed, err := forgetScript.Run(ctx, r.client, []string{StreamKey}, int(Kept.Seconds()), forgetAtOnce).Int()
	if err != nil {
		return false, fmt.Errorf("forget old events: %w", err)
	}
	return removed == forgetAtOnce, nil
}
