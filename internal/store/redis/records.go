package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/record"
	"github.com/pacer-notify/pacer/internal/script"
)

// recordsPrefix begins the keys of records and logs: all of them are in one slot of a cluster.
const recordsPrefix = "pacer:{records}:"

// recordKeys are the keys of the records of a kind, in the order in which write.lua takes them.
type recordKeys struct {
	// bodies is a hash by key. changes is a sorted set of keys by version, of removed ones too; removed is one of these
	// alone. aliases is a hash of alias → key. lines are those of a log that have no numbers yet.
	bodies, changes, removed, aliases, lines string
}

// keysOf are the keys of a kind, and of the log that tells of it, under a prefix, which gives them a slot.
func keysOf(prefix, kind string, log record.Log) recordKeys {
	name := prefix + kind
	return recordKeys{
		name, name + ":changes", name + ":removed", name + ":aliases", prefix + "log:" + log.Name + ":unnumbered",
	}
}

// Records keeps records and logs on Redis. It implements [record.Store].
type Records struct{ client redis.UniversalClient }

// NewRecords makes a store.
func NewRecords(client redis.UniversalClient) *Records { return &Records{client} }

// What [Records] runs: writeScript on a Redis that is not full, changeScript on any.
var (
	//go:embed write.lua
	writeSource               string
	writeScript, changeScript = script.New(writeSource), script.NewWhenFull(writeSource)
)

// write runs one of the two. The arguments that follow the lines are those of the records.
func write(ctx context.Context, client redis.Scripter, with *script.Script, keys recordKeys, of *record.Write,
	records ...any,
) ([]string, error) {
	args := []any{of.Keep.Microseconds(), of.Most, record.ForgetAtOnce, len(of.Lines)}
	for _, line := range of.Lines {
		args = append(args, line)
	}
	names := []string{keys.bodies, keys.changes, keys.removed, keys.aliases, keys.lines}
	return with.Run(ctx, client, names, append(args, records...)...).StringSlice()
}

// Write implements [record.Documents]. Redis that is full refuses new documents.
func (r *Records) Write(ctx context.Context, w record.Write) (int64, error) {
	with := changeScript
	if w.Was == 0 && w.Body != nil {
		with = writeScript
	}
	results, err := write(ctx, r.client, with, keysOf(recordsPrefix, w.Kind, w.Log), &w, w.Key, w.Body, w.Was,
		w.WasAlias, w.Alias)
	if err != nil {
		return 0, fmt.Errorf("write %s %s: %w", w.Kind, w.Key, err)
	}
	switch owner, taken := strings.CutPrefix(results[0], "="); {
	case taken:
		return 0, &record.TakenError{Key: owner}
	case results[0] == resultChanged:
		return 0, record.ErrChanged
	case results[0] == "many":
		return 0, record.ErrTooMany
	}
	if len(w.Lines) > 0 {
		_, _ = r.number(ctx, w.Log) // or whoever reads the log does it
	}
	return versionOf(results[0]), nil
}

// resultChanged is the result of a write when another version was read.
const resultChanged = "changed"

// versionOf reads a version, which a score may be.
func versionOf(text string) int64 {
	version, _ := strconv.ParseFloat(text, 64) // the script writes nothing else
	return int64(version)
}

// Now implements [record.Documents].
func (r *Records) Now(ctx context.Context) (time.Time, error) {
	now, err := r.client.Time(ctx).Result()
	if err != nil {
		return now, fmt.Errorf("ask Redis for the time: %w", err)
	}
	return now.UTC(), nil
}

// Get implements [record.Documents].
func (r *Records) Get(ctx context.Context, kind, key string) (record.Record, time.Time, error) {
	pipe := r.client.Pipeline()
	now := pipe.Time(ctx)
	found, err := getRecord(ctx, pipe, keysOf(recordsPrefix, kind, record.Log{}), key)
	if err != nil {
		return found, time.Time{}, fmt.Errorf("look up %s %s: %w", kind, key, err)
	}
	return found, now.Val().UTC(), now.Err()
}

// getRecord runs a pipeline that reads a record. Its version is read first: so the body is never older.
func getRecord(ctx context.Context, pipe redis.Pipeliner, keys recordKeys, key string) (record.Record, error) {
	version, body := pipe.ZScore(ctx, keys.changes, key), pipe.HGet(ctx, keys.bodies, key)
	_, _ = pipe.Exec(ctx) // each of the replies has its own error
	for _, err := range []error{version.Err(), body.Err()} {
		if err != nil && !errors.Is(err, redis.Nil) {
			return record.Record{}, err
		}
	}
	found := record.Record{Key: key, Version: int64(version.Val())}
	if body.Err() == nil {
		found.Body = []byte(body.Val())
	}
	return found, nil
}

// List implements [record.Documents].
func (r *Records) List(ctx context.Context, kind, after string, limit int) ([]record.Record, error) {
	keys := keysOf(recordsPrefix, kind, record.Log{})
	names, err := r.client.HKeys(ctx, keys.bodies).Result()
	if err != nil {
		return nil, fmt.Errorf("list each %s: %w", kind, err)
	}
	slices.Sort(names)
	from, found := slices.BinarySearch(names, after)
	if found {
		from++
	}
	if names = names[from:]; limit > 0 {
		names = names[:min(limit, len(names))]
	}
	records := make([]record.Record, len(names))
	for i, name := range names {
		records[i].Key = name
	}
	if err := readBodies(ctx, r.client, keys, records); err != nil {
		return nil, fmt.Errorf("list each %s: %w", kind, err)
	}
	return slices.DeleteFunc(records, func(r record.Record) bool { return r.Body == nil }), nil
}

// readBodies reads the bodies of records.
func readBodies(ctx context.Context, client redis.Cmdable, keys recordKeys, records []record.Record) error {
	if len(records) == 0 {
		return nil
	}
	names := make([]string, len(records))
	for i := range records {
		names[i] = records[i].Key
	}
	bodies, err := client.HMGet(ctx, keys.bodies, names...).Result()
	if err != nil {
		return err
	}
	for i := range bodies {
		if body, there := bodies[i].(string); there {
			records[i].Body = []byte(body)
		}
	}
	return nil
}

// Changes implements [record.Documents].
func (r *Records) Changes(ctx context.Context, kind string, from int64, limit int) ([]record.Record, error) {
	records, err := changes(ctx, r.client, keysOf(recordsPrefix, kind, record.Log{}), from, limit)
	if err != nil {
		return nil, fmt.Errorf("read the changes of each %s: %w", kind, err)
	}
	return records, nil
}

// changes reads the changes from a number on.
func changes(ctx context.Context, client redis.Cmdable, keys recordKeys, from int64, limit int,
) ([]record.Record, error) {
	changed, err := client.ZRangeByScoreWithScores(ctx, keys.changes, &redis.ZRangeBy{
		Min: strconv.FormatInt(from, 10), Max: "+inf", Count: int64(limit),
	}).Result()
	if err != nil {
		return nil, err
	}
	records := make([]record.Record, len(changed))
	for i, z := range changed {
		records[i].Key, _ = z.Member.(string)
		records[i].Version = int64(z.Score)
	}
	if len(records) == 1 && records[0].Version == from { // it is known: most of the time
		return records, nil
	}
	return records, readBodies(ctx, client, keys, records)
}
