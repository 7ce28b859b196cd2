package outlook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/throttle"
)

const (
	// laterRead is how many of a user's notifications are read that are later: those that are due first.
	laterRead = 500
	// firstRead is how many ids of each category are read: of its backlog, and of what is later.
	firstRead = 10
	// windowRead is how many admissions of a window are read: the newest.
	windowRead = 100
)

// UserAgenda is what waits for one user. However much that is, a bounded part of it is read.
type UserAgenda struct {
	Partition int
	// Waiting has the categories in which something waits, by name.
	Waiting []UserWaiting
	// Unread is how many more are later than those that were counted, in categories that nobody looked at.
	Unread int
}

// UserWaiting is what waits for a user in one category.
type UserWaiting struct {
	Category string
	// Backlog counts what is in the backlog, Deferred those of it that wait for a slot.
	Backlog, Deferred int
	// Scheduled, Retrying and Held count what is later: until its send_at, until its next attempt, and until its
	// provider may be asked again.
	Scheduled, Retrying, Held int
	// IDs are the first of the backlog, and the first of what is later.
	IDs []string
}

// UserAgenda reads what waits for a user.
func (a *Agendas) UserAgenda(ctx context.Context, userID string) (*UserAgenda, error) {
	all := &UserAgenda{Partition: a.PartitionOf(userID)}
	prefix := a.Prefixes()[all.Partition]
	pipe := a.Client.Pipeline()
	fields := pipe.HGetAll(ctx, prefix+"a:"+userID)
	later := pipe.ZRange(ctx, prefix+"r:"+userID, 0, laterRead-1)
	laterCount := pipe.ZCard(ctx, prefix+"r:"+userID)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("read the agenda of a user: %w", err)
	}
	waiting := map[string]*UserWaiting{}
	if err := a.readBacklogs(ctx, prefix, userID, fields.Val(), waiting); err != nil {
		return nil, err
	}
	if err := a.readLater(ctx, prefix, later.Val(), waiting); err != nil {
		return nil, err
	}
	all.Unread = max(0, int(laterCount.Val())-len(later.Val()))
	for _, w := range waiting {
		all.Waiting = append(all.Waiting, *w)
	}
	slices.SortFunc(all.Waiting, func(a, b UserWaiting) int { return strings.Compare(a.Category, b.Category) })
	return all, nil
}

// waitingIn is what waits in a category, which may be new.
func waitingIn(all map[string]*UserWaiting, category string) *UserWaiting {
	if all[category] == nil {
		all[category] = &UserWaiting{Category: category}
	}
	return all[category]
}

// readBacklogs counts the backlogs that the fields of an agenda name.
func (a *Agendas) readBacklogs(ctx context.Context, prefix, userID string, fields map[string]string,
	all map[string]*UserWaiting,
) error {
	pipe := a.Client.Pipeline()
	sizes, firsts := map[string]*redis.IntCmd{}, map[string]*redis.StringSliceCmd{}
	for category := range fields {
		if !agenda.IsCategory(category) {
			continue
		}
		key := prefix + "w:" + category + ":" + userID
		sizes[category], firsts[category] = pipe.ZCard(ctx, key), pipe.ZRange(ctx, key, 0, firstRead-1)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("read the backlogs of a user: %w", err)
	}
	for category, size := range sizes {
		if size.Val() == 0 {
			continue
		}
		w := waitingIn(all, category)
		w.Backlog, w.Deferred = int(size.Val()), deferredOf(fields[category], size.Val())
		w.IDs = firsts[category].Val()
	}
	return nil
}

// readLater counts notifications that are later, by category.
func (a *Agendas) readLater(ctx context.Context, prefix string, ids []string, all map[string]*UserWaiting) error {
	pipe := a.Client.Pipeline()
	replies := make([]*redis.SliceCmd, len(ids))
	for i, id := range ids {
		replies[i] = pipe.HMGet(ctx, prefix+"n:"+id, keyspace.Fields.Category, keyspace.Fields.State,
			keyspace.Fields.Held)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("read what is later of a user: %w", err)
	}
	shown := map[string]int{}
	for i, id := range ids {
		category, found := replies[i].Val()[0].(string)
		if !found { // it was forgotten meanwhile
			continue
		}
		w := waitingIn(all, category)
		switch {
		case replies[i].Val()[2] != nil:
			w.Held++
		case replies[i].Val()[1] == keyspace.States.Scheduled:
			w.Scheduled++
		default:
			w.Retrying++
		}
		if shown[category] < firstRead {
			shown[category]++
			w.IDs = append(w.IDs, id)
		}
	}
	return nil
}

// UserWindows are the windows of a user's category.
type UserWindows struct {
	throttle.Usage
	// Admitted are the newest admissions that the category's log holds, oldest first; empty for algorithms that keep no
	// log. Names are their notifications, and those in the logs of the caps, newest first.
	Admitted []throttle.Micros
	Names    []string
}

// UserWindows returns how far the limits of a user's category are used, and by which notifications.
func (a *Agendas) UserWindows(ctx context.Context, userID, category string) (UserWindows, error) {
	plan := a.SettingsOf(userID, category).Plan
	key, prefix := throttle.Key{User: userID, Category: category}, a.PrefixOf(userID)
	usage, err := throttle.NewRedis(a.Client, a.PrefixOf).Peek(ctx, key, plan)
	if err != nil {
		return UserWindows{}, err
	}
	pipe := a.Client.Pipeline()
	log := &redis.ZSliceCmd{}
	if plan.Algorithm.KeepsLog() {
		log = pipe.ZRevRangeWithScores(ctx, plan.StateKey(prefix, key), 0, windowRead-1)
	}
	capLogs := []*redis.ZSliceCmd{pipe.ZRevRangeWithScores(ctx, throttle.CapKey(prefix, key), 0, windowRead-1)}
	for _, rules := range plan.NamedCaps() {
		name := throttle.NamedKey(prefix, rules[0].Cap, key)
		capLogs = append(capLogs, pipe.ZRevRangeWithScores(ctx, name, 0, windowRead-1))
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return UserWindows{}, fmt.Errorf("read the windows of category %s: %w", category, err)
	}
	w := UserWindows{Usage: usage, Admitted: agenda.Moments(log)}
	slices.Reverse(w.Admitted)
	entries := slices.Clone(log.Val())
	for _, capLog := range capLogs {
		entries = append(entries, capLog.Val()...)
	}
	slices.SortStableFunc(entries, func(a, b redis.Z) int { return cmp.Compare(b.Score, a.Score) })
	for _, entry := range entries {
		token, _ := entry.Member.(string) // it always is one
		id, _, found := strings.Cut(token, "#")
		if entry.Score > 0 && found && !slices.Contains(w.Names, id) {
			w.Names = append(w.Names, id)
		}
	}
	return w, nil
}
