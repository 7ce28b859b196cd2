package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/record"
	"github.com/pacer-notify/pacer/internal/script"
)

// logKeys are the keys of a log: the lines without numbers, a list; those with numbers, a stream of NUMBER-0; the
// latest number; and the server, from its start to its end, that gave it.
type logKeys struct{ unnumbered, lines, latest, server string }

func logKeysOf(log record.Log) logKeys {
	prefix := recordsPrefix + "log:" + log.Name
	return logKeys{prefix + ":unnumbered", prefix, prefix + ":latest", prefix + ":server"}
}

const (
	// numberAtOnce is how many lines get numbers at once.
	numberAtOnce = 1000
	// forgetAtOnce is how many lines are looked at to forget those that are old.
	forgetAtOnce = 100
)

//go:embed number.lua
var numberSource string

// numberScript runs on a full Redis too: it finishes what was written.
var numberScript = script.NewWhenFull(numberSource)

// number numbers the lines that have no numbers yet, and returns the latest number.
func (r *Records) number(ctx context.Context, log record.Log) (int64, error) {
	k := logKeysOf(log)
	latest, err := numberScript.Run(ctx, r.client, []string{k.unnumbered, k.lines, k.latest, k.server}, log.Most,
		numberAtOnce).Int64()
	if err != nil {
		return 0, fmt.Errorf("number the lines of the %s log: %w", log.Name, err)
	}
	return latest, nil
}

// Append implements [record.Logs].
func (r *Records) Append(ctx context.Context, log record.Log, text []byte) error {
	_, err := write(ctx, r.client, writeScript, keysOf(recordsPrefix, "", log), &record.Write{Lines: [][]byte{text}})
	if err != nil {
		return fmt.Errorf("write the %s log: %w", log.Name, err)
	}
	_, _ = r.number(ctx, log) // or whoever reads it does
	return nil
}

// After implements [record.Logs].
func (r *Records) After(ctx context.Context, log record.Log, number int64, limit int) ([]record.Line, error) {
	if number == math.MaxInt64 { // there is no number after it
		return nil, nil
	}
	return r.read(ctx, log, func() *redis.XMessageSliceCmd {
		return r.client.XRangeN(ctx, logKeysOf(log).lines, strconv.FormatInt(number+1, 10), "+", int64(limit))
	})
}

// Newest implements [record.Logs].
func (r *Records) Newest(ctx context.Context, log record.Log, limit int) ([]record.Line, error) {
	return r.read(ctx, log, func() *redis.XMessageSliceCmd {
		return r.client.XRevRangeN(ctx, logKeysOf(log).lines, "+", "-", int64(limit))
	})
}

// read reads lines once all have numbers.
func (r *Records) read(ctx context.Context, log record.Log, ask func() *redis.XMessageSliceCmd) ([]record.Line, error) {
	if _, err := r.number(ctx, log); err != nil {
		return nil, err
	}
	messages, err := ask().Result()
	if err != nil {
		return nil, fmt.Errorf("read the %s log: %w", log.Name, err)
	}
	lines := make([]record.Line, len(messages))
	for i, message := range messages {
		if lines[i], err = lineOf(message); err != nil {
			return nil, fmt.Errorf("read line %s of the %s log: %w", message.ID, log.Name, err)
		}
	}
	return lines, nil
}

// lineOf reads one entry of the stream.
func lineOf(message redis.XMessage) (record.Line, error) {
	id, _, _ := strings.Cut(message.ID, "-")
	number, err := strconv.ParseInt(id, 10, 64)
	at, _ := message.Values["at"].(string)
	micros, atErr := strconv.ParseInt(at, 10, 64)
	text, _ := message.Values["text"].(string)
	return record.Line{Number: number, At: time.UnixMicro(micros).UTC(), Text: []byte(text)}, errors.Join(err, atErr)
}

// Latest implements [record.Logs].
func (r *Records) Latest(ctx context.Context, log record.Log) (int64, error) {
	return r.number(ctx, log)
}

// forgetScript removes some of the oldest lines that were kept long enough.
//
//	KEYS[1]  the stream
//	ARGV[1]  for how long lines are kept, in seconds
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

// Forget implements [record.Logs].
func (r *Records) Forget(ctx context.Context, log record.Log) (more bool, err error) {
	removed, err := forgetScript.Run(ctx, r.client, []string{logKeysOf(log).lines}, int(log.Keep.Seconds()),
		forgetAtOnce).Int()
	if err != nil {
		return false, fmt.Errorf("forget old lines of the %s log: %w", log.Name, err)
	}
	return removed == forgetAtOnce, nil
}
