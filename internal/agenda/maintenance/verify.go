package maintenance

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/script"
	"github.com/pacer-notify/pacer/internal/throttle"
)

//go:embed standing.lua
var standingSource string

var standing = script.NewWhenFull(keyspace.Spell(standingSource))

// Standing is where a notification is in its partition.
type Standing struct {
	// Status is empty for a notification that the partition does not know.
	Status notification.Status
	// InLine, Later and InFlight are the places where it can be. HasEnd says that it has an end that the other store
	// does not know of yet.
	InLine, Later, InFlight, HasEnd bool
}

// Placed reports whether it is in a place that leads to its end.
func (s Standing) Placed() bool {
	return s.HasEnd || s.Status != "" && (s.InLine || s.Later || s.InFlight)
}

// Find returns where notifications are, some of a partition as of one moment. Of an entry it needs id, user and
// category.
func (m *Agendas) Find(ctx context.Context, entries []agenda.Entry) ([]Standing, error) {
	found := make([]Standing, len(entries))
	user := func(i int) string { return entries[i].UserID }
	return found, m.InBatches(len(entries), user, func(partition int, part []int) error {
		args := make([]any, 0, 3*len(part))
		for _, i := range part {
			args = append(args, entries[i].ID, entries[i].Category, entries[i].UserID)
		}
		reply, err := standing.Run(ctx, m.Client, m.ScriptKeys(partition), args...).StringSlice()
		if err != nil {
			return fmt.Errorf("find notifications of partition %d: %w", partition, err)
		}
		for n, i := range part {
			in := func(place string) bool { return strings.Contains(reply[2*n+1], place) }
			found[i] = Standing{
				Status: agenda.StatusOf(reply[2*n]),
				InLine: in("w"), Later: in("r"), InFlight: in("e"), HasEnd: in("z"),
			}
		}
		return nil
	})
}

// Waiting is a notification that waits in a backlog, or is later. When it is later, its category is empty.
type Waiting struct {
	dispatch.Backlog

	ID string
}

// EachWaiting calls do, with about n at a time, for everything that is in a backlog or is later. What moves meanwhile
// may come twice, or not at all.
func (m *Agendas) EachWaiting(ctx context.Context, n int, do func([]Waiting) error) error {
	page := make([]Waiting, 0, n)
	err := m.eachKey(ctx, "[wr]:", int64(n), func(node redis.UniversalClient, keys []string) (err error) {
		for _, key := range keys {
			if page, err = m.eachIn(ctx, node, key, page, do); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || len(page) == 0 {
		return err
	}
	return do(page)
}

// eachIn adds to the page what the key of a backlog, or of what is later of a user, holds. It calls do whenever the
// page is full, and returns the page.
func (m *Agendas) eachIn(
	ctx context.Context, node redis.UniversalClient, key string, page []Waiting, do func([]Waiting) error,
) ([]Waiting, error) {
	_, name, _ := strings.Cut(key, "}:")
	partition := m.OfKey(key)
	if partition < 0 {
		return page, nil
	}
	backlog := dispatch.Backlog{Partition: partition}
	if backlog.UserID = name[len("r:"):]; name[0] == 'w' {
		backlog.Category, backlog.UserID, _ = strings.Cut(name[len("w:"):], ":")
	}
	for cursor := uint64(0); ; {
		pairs, next, err := node.ZScan(ctx, key, cursor, "", int64(cap(page))).Result()
		if err != nil {
			return nil, fmt.Errorf("read what waits of a user of partition %d: %w", partition, err)
		}
		for i := 0; i+1 < len(pairs); i += 2 { // each is followed by its score
			if page = append(page, Waiting{backlog, pairs[i]}); len(page) == cap(page) {
				if err := do(page); err != nil {
					return nil, err
				}
				page = page[:0]
			}
		}
		if cursor = next; cursor == 0 {
			return page, nil
		}
	}
}

// Windows are the logs of one user's admissions.
type Windows struct {
	// Categories holds the moments in the log of each requested category, Cap those in the log of the user's cap, Named
	// those of each named cap that counts one of the categories.
	Categories, Named map[string][]throttle.Micros
	Cap               []throttle.Micros
}

// WindowsOf reads a user's logs. A category whose limits are counters has none.
func (m *Agendas) WindowsOf(ctx context.Context, userID string, categories []string) (Windows, error) {
	prefix := m.PrefixOf(userID)
	logs, named := make([]*redis.ZSliceCmd, len(categories)), map[string]*redis.ZSliceCmd{}
	pipe := m.Client.Pipeline()
	for i, category := range categories {
		plan := m.SettingsOf(userID, category).Plan
		if plan.Algorithm.KeepsLog() {
			key := plan.StateKey(prefix, throttle.Key{User: userID, Category: category})
			logs[i] = pipe.ZRangeWithScores(ctx, key, 0, -1)
		}
		for _, rules := range plan.NamedCaps() {
			name := rules[0].Cap
			named[name] = pipe.ZRangeWithScores(ctx, throttle.NamedKey(prefix, name, throttle.Key{User: userID}), 0, -1)
		}
	}
	log := pipe.ZRangeWithScores(ctx, throttle.CapKey(prefix, throttle.Key{User: userID}), 0, -1)
	if _, err := pipe.Exec(ctx); err != nil {
		return Windows{}, fmt.Errorf("read a user's windows: %w", err)
	}
	w := Windows{
		Categories: map[string][]throttle.Micros{}, Named: map[string][]throttle.Micros{}, Cap: agenda.Moments(log),
	}
	for name, log := range named {
		w.Named[name] = agenda.Moments(log)
	}
	for i, category := range categories {
		if logs[i] != nil {
			w.Categories[category] = agenda.Moments(logs[i])
		}
	}
	return w, nil
}
