package redis_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/redis"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// A day after a user's preferences were removed, nothing is left of them; the changes say that something was forgotten.
func TestRemovedPreferencesLeaveNothing(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	store := redis.New(client, agendasOf(t, client, storetest.Lease))
	ctx := t.Context()
	set := func(user string, p *notification.Preferences) {
		t.Helper()
		if err := store.SetPreferences(ctx, user, p, notification.AnyVersion); err != nil {
			t.Fatal(err)
		}
	}
	for user := range strings.FieldsSeq("a b c d e f g h") {
		set(user, &notification.Preferences{TimeZone: "Europe/Vienna"})
		set(user, &notification.Preferences{})
	}
	keys, err := client.Keys(ctx, "*preferences:removed").Result()
	if err != nil || len(keys) != storetest.Partitions {
		t.Fatalf("removed ones are in %v, %v", keys, err)
	}
	for _, key := range keys {
		removed, err := client.ZRangeWithScores(ctx, key, 0, -1).Result()
		for i := range removed {
			removed[i].Score -= float64((25 * time.Hour).Microseconds())
		}
		if err := errors.Join(err, client.ZAdd(ctx, key, removed...).Err()); err != nil {
			t.Fatal(err)
		}
	}
	for user := range strings.FieldsSeq("p q r s t u v w") {
		set(user, &notification.Preferences{TimeZone: "Europe/Vienna"})
	}
	forgot, users := 0, 0
	for _, page := range store.ChangedPreferences(ctx, make([]int64, storetest.Partitions), 100) {
		for _, c := range page.Changes {
			if users++; c.UserID == "" {
				forgot++
			}
		}
	}
	if left, err := client.Exists(ctx, keys...).Result(); err != nil || left != 0 || users != 8+forgot ||
		forgot != storetest.Partitions {
		t.Errorf("%d changes are left, %d of them forgotten, and %d sets of removed ones, %v", users, forgot, left, err)
	}
}
