package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/agenda/maintenance"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/patience"
	"github.com/pacer-notify/pacer/internal/record"
)

// preferencesKept is how long it is known that a user's preferences were removed: whatever still waits by them is
// decided again until then.
const preferencesKept = 24 * time.Hour

// preferences keeps what users want, as records of each partition, and cancels what waits although its user does not
// want it.
type preferences struct {
	client  redis.UniversalClient
	agendas *agenda.Agendas
}

// encodePreferences makes the text of preferences, which is empty when they leave everything to the policy.
func encodePreferences(p *notification.Preferences) (string, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("write a user's preferences: %w", err)
	}
	if string(text) == "{}" {
		return "", nil
	}
	return string(text), nil
}

// preferencesOf reads what encodePreferences made. The number of the change is its moment.
func preferencesOf(r record.Record) (p notification.Preferences, err error) {
	if r.Body != nil {
		if err = json.Unmarshal(r.Body, &p); err != nil {
			p, err = notification.Preferences{}, fmt.Errorf("read a user's preferences: %w", err)
		}
	}
	setVersion(&p, r.Version)
	return p, err
}

// preferencesKeys are the keys of the preferences of a partition's users.
func preferencesKeys(partition int) recordKeys {
	return keysOf(keyspace.Prefix(partition), "preferences", record.Log{})
}

// Preferences returns the preferences of a user, or the zero value when there are none.
func (s *preferences) Preferences(ctx context.Context, userID string) (*notification.Preferences, error) {
	found, err := getRecord(ctx, s.client.Pipeline(), preferencesKeys(s.agendas.PartitionOf(userID)), userID)
	if err != nil {
		return nil, fmt.Errorf("look up a user's preferences: %w", err)
	}
	p, err := preferencesOf(found)
	return &p, err
}

// setVersion notes the number of the change that made preferences what they are, which is its moment.
func setVersion(p *notification.Preferences, version int64) {
	if p.Version = version; version > 0 {
		p.UpdatedAt = time.UnixMicro(version).UTC()
	}
}

// writePreferences replaces the preferences of some users of a partition who have still the version that was read;
// whatever they are, when that is [notification.AnyVersion].
func (s *preferences) writePreferences(ctx context.Context, partition int, of map[string]*notification.Preferences,
	was int64,
) error {
	read, users, args := "", slices.Collect(maps.Keys(of)), make([]any, 0, 5*len(of))
	if was != notification.AnyVersion {
		read = strconv.FormatInt(was, 10)
	}
	for _, userID := range users {
		text, err := encodePreferences(of[userID])
		if err != nil {
			return err
		}
		args = append(args, userID, text, read, "", "")
	}
	results, err := write(ctx, s.client, writeScript, preferencesKeys(partition), &record.Write{Keep: preferencesKept},
		args...)
	if err != nil {
		return fmt.Errorf("write users' preferences: %w", err)
	}
	for i, result := range results {
		if result == resultChanged {
			return notification.ErrPreferencesChanged
		}
		setVersion(of[users[i]], versionOf(result))
	}
	return nil
}

// SetPreferences replaces the preferences of a user that have still the version that was read, and cancels waiting
// notifications that they opt out of.
func (s *preferences) SetPreferences(ctx context.Context, userID string, p *notification.Preferences, was int64) error {
	one := map[string]*notification.Preferences{userID: p}
	if err := s.writePreferences(ctx, s.agendas.PartitionOf(userID), one, was); err != nil {
		return err
	}
	return s.cancelOptedOut(ctx, userID, p)
}

// SetManyPreferences replaces the preferences of some users, and cancels waiting notifications that they opt out of.
// Those of one partition are written together. It may be repeated.
func (s *preferences) SetManyPreferences(ctx context.Context, of map[string]*notification.Preferences) error {
	byPartition := map[int]map[string]*notification.Preferences{}
	for userID, p := range of {
		partition := s.agendas.PartitionOf(userID)
		if byPartition[partition] == nil {
			byPartition[partition] = map[string]*notification.Preferences{}
		}
		byPartition[partition][userID] = p
	}
	for partition, some := range byPartition {
		if err := s.writePreferences(ctx, partition, some, notification.AnyVersion); err != nil {
			return err
		}
	}
	for userID, p := range of {
		if err := s.cancelOptedOut(ctx, userID, p); err != nil {
			return err
		}
	}
	return nil
}

// ClearPreferences removes the preferences of a user. For a while it is known that there were some, so that every
// process sees it.
func (s *preferences) ClearPreferences(ctx context.Context, userID string) error {
	return s.SetPreferences(ctx, userID, &notification.Preferences{}, notification.AnyVersion)
}

// changeTries is how often a change of one thing is tried when others change the user's preferences at the same time.
const changeTries = 100

// change changes something of what a user wants, and leaves everything else as it is.
func (s *preferences) change(ctx context.Context, userID string, change func(*notification.Preferences)) (
	*notification.Preferences, error,
) {
	for range changeTries {
		p, err := s.Preferences(ctx, userID)
		if err != nil {
			return nil, err
		}
		change(p)
		one := map[string]*notification.Preferences{userID: p}
		err = s.writePreferences(ctx, s.agendas.PartitionOf(userID), one, p.Version)
		if !errors.Is(err, notification.ErrPreferencesChanged) {
			return p, err
		}
	}
	return nil, fmt.Errorf("change a user's preferences: others changed them %d times meanwhile", changeTries)
}

// OptOut adds a category to those that a user does not want, and cancels what waits of it. It may be repeated, and is
// after an error: then what the first time left waiting is cancelled.
func (s *preferences) OptOut(ctx context.Context, userID, category string) error {
	p, err := s.change(ctx, userID, func(p *notification.Preferences) {
		if !slices.Contains(p.OptOutCategories, category) {
			p.OptOutCategories = append(p.OptOutCategories, category)
		}
	})
	if err != nil {
		return err
	}
	return s.cancelOptedOut(ctx, userID, p)
}

// OptIn removes a category from those that a user does not want.
func (s *preferences) OptIn(ctx context.Context, userID, category string) error {
	_, err := s.change(ctx, userID, func(p *notification.Preferences) {
		p.OptOutCategories = slices.DeleteFunc(p.OptOutCategories, func(c string) bool { return c == category })
	})
	return err
}

// cancelOptedOut cancels the waiting notifications that the user has opted out of.
func (s *preferences) cancelOptedOut(ctx context.Context, userID string, p *notification.Preferences) error {
	if len(p.OptOutCategories)+len(p.OptOutChannels) == 0 {
		return nil
	}
	_, err := s.cancelOf(ctx, userID, notification.ReasonOptedOut, func(k maintenance.Known) bool {
		return p.OptsOut(k.Category, notification.Channel(k.Channel))
	})
	return err
}

// cancelOf cancels those of a user's waiting notifications that are chosen, for a reason, and returns how many it did.
func (s *preferences) cancelOf(
	ctx context.Context, userID, reason string, chosen func(maintenance.Known) bool,
) (n int, err error) {
	var ids []string
	if err := maintenance.Of(s.agendas).EachOfUser(ctx, userID, func(k maintenance.Known) error {
		if chosen(k) {
			ids = append(ids, k.ID)
		}
		return nil
	}); err != nil {
		return 0, err
	}
	partition := s.agendas.PartitionOf(userID)
	for _, id := range ids {
		err := s.agendas.CancelIn(ctx, partition, id, reason)
		switch {
		case err == nil:
			n++
		case !errors.Is(err, notification.ErrNotWaiting) && !errors.Is(err, notification.ErrNotFound):
			return n, err
		}
	}
	return n, nil
}

// PreferencesParts implements the source of changed preferences: each partition is a part.
func (s *preferences) PreferencesParts() int { return s.agendas.Partitions() }

// partPatience is how long a partition may take to tell what has changed. A shard that stands still must leave time to
// wake the users of the others within the same look.
const partPatience = 5 * time.Second

// ChangedPreferences lists, for each partition, the users whose latest change has a version from `from` on, in order.
// Each partition is asked by itself: one pipeline would end for all of them when the shard of one is away.
func (s *preferences) ChangedPreferences(ctx context.Context, from []int64, limit int) []notification.PreferencesPage {
	pages := make([]notification.PreferencesPage, len(from))
	var reading sync.WaitGroup
	for partition, number := range from {
		reading.Go(func() {
			changes, err := patience.Ask(ctx, partPatience,
				func(ctx context.Context) ([]notification.PreferencesChange, error) {
					return s.changedIn(ctx, partition, number, limit)
				})
			if err != nil {
				err = fmt.Errorf("read the changed preferences of partition %d: %w", partition, err)
			}
			pages[partition] = notification.PreferencesPage{Changes: changes, Err: err}
		})
	}
	reading.Wait()
	return pages
}

// changedIn is [preferences.ChangedPreferences] of one partition.
func (s *preferences) changedIn(ctx context.Context, partition int, from int64, limit int,
) ([]notification.PreferencesChange, error) {
	records, err := changes(ctx, s.client, preferencesKeys(partition), from, limit)
	if err != nil {
		return nil, err
	}
	all := make([]notification.PreferencesChange, len(records))
	for i, r := range records {
		all[i].UserID = r.Key
		// What another version wrote and this one can't read leaves everything to the policy.
		all[i].Preferences, _ = preferencesOf(r)
	}
	return all, nil
}
