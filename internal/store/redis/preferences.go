package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/patience"
	"github.com/pacer-notify/pacer/internal/script"
)

// setPreferencesScript replaces the preferences of users of one partition. Those that are the same already stay as
// they are: nobody has to look at them again. The number of a change is the moment in µs, and higher than that of
// every change before it, so that a server which has lost the latest changes numbers no new one like them.
//
//	KEYS[1]  the preferences of the partition's users, a hash
//	KEYS[2]  the numbers of their latest changes, a sorted set
//	ARGV[…]  per user: id, the preferences as JSON, "" for none, and 1 when they must still be as the next argument says
//	         ("" for none), which is ignored otherwise
//	Result   for each user the number of the latest change, in µs; 0 when there never was one, −1 when they were not
//	         as they had to be
var setPreferencesScript = script.New(`
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local last = tonumber(redis.call('ZREVRANGE', KEYS[2], '0', '0', 'WITHSCORES')[2] or 0)
local numbers = {}
for i = 1, #ARGV, 4 do
  local user, wanted, must, was = ARGV[i], ARGV[i + 1], ARGV[i + 2] == '1', ARGV[i + 3]
  local before = redis.call('HGET', KEYS[1], user) or ''
  if must and before ~= was then
    numbers[#numbers + 1] = '-1'
  elseif before == wanted then
    numbers[#numbers + 1] = redis.call('ZSCORE', KEYS[2], user) or '0'
  else
    last = math.max(now, last + 1)
    local number = string.format('%.0f', last)
    if wanted == '' then redis.call('HDEL', KEYS[1], user) else redis.call('HSET', KEYS[1], user, wanted) end
    redis.call('ZADD', KEYS[2], number, user)
    numbers[#numbers + 1] = number
  end
end
return numbers`)

// storedPreferences is what a user wants in the hash of its partition.
type storedPreferences struct {
	Categories []string                   `json:"c,omitempty"`
	Channels   []string                   `json:"n,omitempty"`
	Limits     map[string]json.RawMessage `json:"l,omitempty"`
	TimeZone   string                     `json:"z,omitempty"`
	QuietHours json.RawMessage            `json:"h,omitempty"`
	QuietUntil time.Time                  `json:"q,omitzero"`
}

// encodePreferences makes the text of preferences, which is empty when they leave everything to the policy.
func encodePreferences(p *notification.Preferences) (string, error) {
	text, err := json.Marshal(storedPreferences{
		Categories: p.OptOutCategories, Channels: p.OptOutChannels, Limits: p.Limits, TimeZone: p.TimeZone,
		QuietHours: p.QuietHours, QuietUntil: p.QuietUntil,
	})
	if err != nil {
		return "", fmt.Errorf("write a user's preferences: %w", err)
	}
	if string(text) == "{}" {
		return "", nil
	}
	return string(text), nil
}

// decodePreferences reads what encodePreferences made.
func decodePreferences(text string) (notification.Preferences, error) {
	var stored storedPreferences
	if text == "" {
		return notification.Preferences{}, nil
	}
	if err := json.Unmarshal([]byte(text), &stored); err != nil {
		return notification.Preferences{}, fmt.Errorf("read a user's preferences: %w", err)
	}
	return notification.Preferences{
		OptOutCategories: stored.Categories, OptOutChannels: stored.Channels, Limits: stored.Limits,
		TimeZone: stored.TimeZone, QuietHours: stored.QuietHours, QuietUntil: stored.QuietUntil,
	}, nil
}

// preferencesKeys are the preferences of a partition's users, and the numbers of their changes.
func preferencesKeys(partition int) []string {
	prefix := agenda.PartitionPrefix(partition)
	return []string{prefix + "preferences", prefix + "preferences:changes"}
}

// Preferences returns the preferences of a user, or the zero value when there are none.
func (s *Store) Preferences(ctx context.Context, userID string) (*notification.Preferences, error) {
	p, _, err := s.readPreferences(ctx, userID)
	return p, err
}

// readPreferences returns the preferences of a user, and their text.
func (s *Store) readPreferences(ctx context.Context, userID string) (*notification.Preferences, string, error) {
	keys := preferencesKeys(s.agendas.PartitionOf(userID))
	pipe := s.client.Pipeline()
	text, number := pipe.HGet(ctx, keys[0], userID), pipe.ZScore(ctx, keys[1], userID)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, "", fmt.Errorf("look up a user's preferences: %w", err)
	}
	for _, reply := range []error{text.Err(), number.Err()} {
		if reply != nil && !errors.Is(reply, redis.Nil) {
			return nil, "", fmt.Errorf("look up a user's preferences: %w", reply)
		}
	}
	p, err := decodePreferences(text.Val())
	if number.Val() > 0 {
		p.UpdatedAt = time.UnixMicro(int64(number.Val())).UTC()
	}
	return &p, text.Val(), err
}

// SetPreferences replaces the preferences of a user, and cancels waiting notifications that they opt out of.
func (s *Store) SetPreferences(ctx context.Context, userID string, p *notification.Preferences) error {
	return s.SetManyPreferences(ctx, map[string]*notification.Preferences{userID: p})
}

// SetManyPreferences replaces the preferences of some users, and cancels waiting notifications that they opt out of.
// Those of one partition are written together. It may be repeated.
func (s *Store) SetManyPreferences(ctx context.Context, of map[string]*notification.Preferences) error {
	users, args := map[int][]string{}, map[int][]any{}
	for userID, p := range of {
		text, err := encodePreferences(p)
		if err != nil {
			return err
		}
		partition := s.agendas.PartitionOf(userID)
		users[partition] = append(users[partition], userID)
		args[partition] = append(args[partition], userID, text, "0", "")
	}
	for partition, some := range users {
		numbers, err := setPreferencesScript.Run(ctx, s.client, preferencesKeys(partition),
			args[partition]...).StringSlice()
		if err != nil {
			return fmt.Errorf("write users' preferences: %w", err)
		}
		for i, number := range numbers {
			if micros, err := strconv.ParseFloat(number, 64); err == nil && micros > 0 {
				of[some[i]].UpdatedAt = time.UnixMicro(int64(micros)).UTC()
			}
		}
	}
	for userID, p := range of {
		if err := s.cancelOptedOut(ctx, userID, p); err != nil {
			return err
		}
	}
	return nil
}

// ClearPreferences removes the preferences of a user. The number of the change stays, so that every process sees it.
func (s *Store) ClearPreferences(ctx context.Context, userID string) error {
	return s.SetPreferences(ctx, userID, &notification.Preferences{})
}

// changeTries is how often a change of one thing is tried when others change the user's preferences at the same time.
const changeTries = 100

// change changes something of what a user wants, and leaves everything else as it is.
func (s *Store) change(ctx context.Context, userID string, change func(*notification.Preferences)) (
	*notification.Preferences, error,
) {
	for range changeTries {
		p, before, err := s.readPreferences(ctx, userID)
		if err != nil {
			return nil, err
		}
		change(p)
		after, err := encodePreferences(p)
		if err != nil {
			return nil, err
		}
		numbers, err := setPreferencesScript.Run(ctx, s.client, preferencesKeys(s.agendas.PartitionOf(userID)), userID,
			after, "1", before).StringSlice()
		if err != nil {
			return nil, fmt.Errorf("change a user's preferences: %w", err)
		}
		if numbers[0] != "-1" {
			return p, nil
		}
	}
	return nil, fmt.Errorf("change a user's preferences: others changed them %d times meanwhile", changeTries)
}

// OptOut adds a category to those that a user does not want, and cancels what waits of it. It may be repeated, and is
// after an error: then what the first time left waiting is cancelled.
func (s *Store) OptOut(ctx context.Context, userID, category string) error {
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
func (s *Store) OptIn(ctx context.Context, userID, category string) error {
	_, err := s.change(ctx, userID, func(p *notification.Preferences) {
		p.OptOutCategories = slices.DeleteFunc(p.OptOutCategories, func(c string) bool { return c == category })
	})
	return err
}

// cancelOptedOut cancels the waiting notifications that the user has opted out of.
func (s *Store) cancelOptedOut(ctx context.Context, userID string, p *notification.Preferences) error {
	if len(p.OptOutCategories)+len(p.OptOutChannels) == 0 {
		return nil
	}
	var unwanted []string
	err := s.agendas.EachOfUser(ctx, userID, func(k agenda.Known) error {
		if p.OptsOut(k.Category, notification.Channel(k.Channel)) {
			unwanted = append(unwanted, k.ID)
		}
		return nil
	})
	if err != nil {
		return err
	}
	partition := s.agendas.PartitionOf(userID)
	for _, id := range unwanted {
		err := s.agendas.CancelIn(ctx, partition, id, notification.ReasonOptedOut)
		if err != nil && !errors.Is(err, notification.ErrNotWaiting) && !errors.Is(err, notification.ErrNotFound) {
			return err
		}
	}
	return nil
}

// PreferencesParts implements the source of changed preferences: each partition is a part.
func (s *Store) PreferencesParts() int { return s.agendas.Partitions() }

// partPatience is how long a partition may take to tell what has changed. A shard that stands still must leave time to
// wake the users of the others within the same look.
const partPatience = 5 * time.Second

// ChangedPreferences lists, for each partition, the users whose latest change has a number from `from` on, in order.
// Each partition is asked by itself: one pipeline would end for all of them when the shard of one is away.
func (s *Store) ChangedPreferences(ctx context.Context, from []int64, limit int) []notification.PreferencesPage {
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

// changedIn is [Store.ChangedPreferences] of one partition.
func (s *Store) changedIn(ctx context.Context, partition int, from int64, limit int,
) ([]notification.PreferencesChange, error) {
	keys := preferencesKeys(partition)
	users, err := s.client.ZRangeByScoreWithScores(ctx, keys[1], &redis.ZRangeBy{
		Min: strconv.FormatInt(from, 10), Max: "+inf", Count: int64(limit),
	}).Result()
	if err != nil || len(users) == 0 {
		return nil, err
	}
	changes, names := make([]notification.PreferencesChange, len(users)), make([]string, len(users))
	for i, user := range users {
		names[i], _ = user.Member.(string)
		changes[i] = notification.PreferencesChange{UserID: names[i], Number: int64(user.Score)}
	}
	if len(changes) == 1 && changes[0].Number == from { // it is known: most of the time
		return changes, nil
	}
	texts, err := s.client.HMGet(ctx, keys[0], names...).Result()
	if err != nil {
		return nil, err
	}
	for i := range changes {
		text, _ := texts[i].(string)
		// What another version wrote and this one can't read leaves everything to the policy.
		changes[i].Preferences, _ = decodePreferences(text)
	}
	return changes, nil
}
