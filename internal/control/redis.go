package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// pausesKey is a hash of subject → pause, auditKey a list of entries, newest first.
	pausesKey = "pacer:pauses"
	auditKey  = "pacer:audit"
	// jobsKey is a hash of id → job.
	jobsKey = "pacer:jobs"
	// auditKept is how many entries are kept on Redis.
	auditKept = 1000
	// clearedKey is a sorted set of the users whose windows were cleared, by when, in µs: the log is too short for it.
	clearedKey = "pacer:cleared"
	// clearedKept is how long they are kept: no limit looks back further.
	clearedKept = 2 * 366 * 24 * time.Hour
)

// Redis keeps them where the store is on Redis too.
type Redis struct{ client redis.UniversalClient }

// NewRedis makes a store.
func NewRedis(client redis.UniversalClient) *Redis { return &Redis{client} }

func fieldOf(s Subject) string { return string(s.Kind) + ":" + s.Name }

// Pauses implements [Store].
func (r *Redis) Pauses(ctx context.Context) ([]Pause, error) {
	fields, err := r.client.HGetAll(ctx, pausesKey).Result()
	if err != nil {
		return nil, fmt.Errorf("read what is paused: %w", err)
	}
	pauses := make([]Pause, 0, len(fields))
	for field, text := range fields {
		var p Pause
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			return nil, fmt.Errorf("read the pause of %s: %w", field, err)
		}
		pauses = append(pauses, p)
	}
	slices.SortFunc(pauses, func(a, b Pause) int {
		return cmp.Or(strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.Name, b.Name))
	})
	return pauses, nil
}

// Pause implements [Store].
func (r *Redis) Pause(ctx context.Context, p Pause) error {
	p.At = time.Now().UTC()
	text, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode the pause of %s: %w", p.Subject, err)
	}
	if err := r.client.HSet(ctx, pausesKey, fieldOf(p.Subject), text).Err(); err != nil {
		return fmt.Errorf("pause %s: %w", p.Subject, err)
	}
	return nil
}

// Resume implements [Store].
func (r *Redis) Resume(ctx context.Context, s Subject) (bool, error) {
	removed, err := r.client.HDel(ctx, pausesKey, fieldOf(s)).Result()
	if err != nil {
		return false, fmt.Errorf("resume %s: %w", s, err)
	}
	return removed == 1, nil
}

// Note implements [Store].
func (r *Redis) Note(ctx context.Context, e Entry) error {
	e.At = time.Now().UTC()
	text, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode an entry of the audit log: %w", err)
	}
	if e.Action == Cleared {
		if err := r.noteCleared(ctx, e); err != nil {
			return err
		}
	}
	pipe := r.client.TxPipeline()
	pipe.LPush(ctx, auditKey, text)
	pipe.LTrim(ctx, auditKey, 0, auditKept-1)
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("write the audit log: %w", err)
	}
	return nil
}

// noteCleared keeps whose windows were cleared.
func (r *Redis) noteCleared(ctx context.Context, e Entry) error {
	pipe := r.client.TxPipeline()
	pipe.ZAddGT(ctx, clearedKey, redis.Z{Score: float64(e.At.UnixMicro()), Member: e.Subject})
	pipe.ZRemRangeByScore(ctx, clearedKey, "-inf", strconv.FormatInt(e.At.Add(-clearedKept).UnixMicro(), 10))
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("note whose windows were cleared: %w", err)
	}
	return nil
}

// ClearedSince implements [Store].
func (r *Redis) ClearedSince(ctx context.Context, since time.Time) (map[string]time.Time, error) {
	after := "(" + strconv.FormatInt(since.UnixMicro(), 10)
	cleared, err := r.client.ZRangeByScoreWithScores(ctx, clearedKey, &redis.ZRangeBy{Min: after, Max: "+inf"}).Result()
	if err != nil {
		return nil, fmt.Errorf("read whose windows were cleared: %w", err)
	}
	users := map[string]time.Time{}
	for _, one := range cleared {
		if user, ok := one.Member.(string); ok {
			users[user] = time.UnixMicro(int64(one.Score))
		}
	}
	return users, nil
}

// Audit implements [Store].
func (r *Redis) Audit(ctx context.Context, limit int) ([]Entry, error) {
	lines, err := r.client.LRange(ctx, auditKey, 0, int64(limit)-1).Result()
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	entries := make([]Entry, len(lines))
	for i, line := range lines {
		if err := json.Unmarshal([]byte(line), &entries[i]); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
	}
	return entries, nil
}

// AddJob implements [Jobs].
func (r *Redis) AddJob(ctx context.Context, j Job) error {
	return r.watchJobs(ctx, "add a job", func(tx *redis.Tx, now time.Time) (*Job, []string, error) {
		jobs, err := readJobs(ctx, tx)
		j.At = now
		if known := slices.IndexFunc(jobs, func(k Job) bool { return k.ID == j.ID }); known >= 0 {
			j = jobs[known]
		}
		return &j, forgotten(jobs), err
	})
}

// Jobs implements [Jobs].
func (r *Redis) Jobs(ctx context.Context) ([]Job, error) {
	jobs, err := readJobs(ctx, r.client)
	if err != nil {
		return nil, fmt.Errorf("read the jobs: %w", err)
	}
	return jobs, nil
}

func readJobs(ctx context.Context, from redis.Cmdable) ([]Job, error) {
	fields, err := from.HGetAll(ctx, jobsKey).Result()
	if err != nil {
		return nil, err
	}
	jobs := make([]Job, 0, len(fields))
	for _, text := range fields {
		var j Job
		if err := json.Unmarshal([]byte(text), &j); err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	sortJobs(jobs)
	return jobs, nil
}

// ChangeJob implements [Jobs].
func (r *Redis) ChangeJob(ctx context.Context, id string, change func(*Job, time.Time) error) (*Job, error) {
	var j Job
	err := r.watchJobs(ctx, "change job "+id, func(tx *redis.Tx, now time.Time) (*Job, []string, error) {
		text, err := tx.HGet(ctx, jobsKey, id).Result()
		if errors.Is(err, redis.Nil) {
			return nil, nil, ErrNoJob
		}
		if err != nil {
			return nil, nil, err
		}
		j = Job{}
		if err := json.Unmarshal([]byte(text), &j); err != nil {
			return nil, nil, err
		}
		return &j, nil, change(&j, now)
	})
	return &j, err
}

// watchJobs writes the job that change returns, and forgets others, unless somebody else changed a job meanwhile: then
// it asks again.
func (r *Redis) watchJobs(ctx context.Context, what string,
	change func(tx *redis.Tx, now time.Time) (*Job, []string, error),
) error {
	for {
		err := r.client.Watch(ctx, func(tx *redis.Tx) error {
			now, err := tx.Time(ctx).Result()
			if err != nil {
				return err
			}
			j, forget, err := change(tx, now.UTC())
			if err != nil {
				return err
			}
			text, err := json.Marshal(j)
			if err != nil {
				return err
			}
			_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.HSet(ctx, jobsKey, j.ID, text)
				if len(forget) > 0 {
					pipe.HDel(ctx, jobsKey, forget...)
				}
				return nil
			})
			return err
		}, jobsKey)
		if errors.Is(err, redis.TxFailedErr) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	}
}
