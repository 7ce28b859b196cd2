package control

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// pausesKey is a hash of subject → pause, auditKey a list of entries, newest first.
	pausesKey = "pacer:pauses"
	auditKey  = "pacer:audit"
	// auditKept is how many entries are kept on Redis.
	auditKept = 1000
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
	pipe := r.client.TxPipeline()
	pipe.LPush(ctx, auditKey, text)
	pipe.LTrim(ctx, auditKey, 0, auditKept-1)
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("write the audit log: %w", err)
	}
	return nil
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
