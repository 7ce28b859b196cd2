package redistest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/test/redistest"
)

func TestMiniIsEmptyAndApart(t *testing.T) {
	t.Parallel()
	a, b := redistest.Mini(t), redistest.Mini(t)
	set(t, a, "k", "v")
	if n := size(t, b); n != 0 {
		t.Errorf("%d keys of one engine in the other", n)
	}
}

func TestMiniRunsLua(t *testing.T) {
	t.Parallel()
	c := redistest.Mini(t)
	got, err := redis.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1])").
		Run(t.Context(), c, []string{"n"}, 7).Int()
	if got != 7 || err != nil {
		t.Errorf("script = %d, %v, want 7", got, err)
	}
}

func TestMiniFollowsTheClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := redistest.Mini(t)
		if err := c.Set(t.Context(), "k", "v", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		before, err := c.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(59 * time.Second)
		if n := size(t, c); n != 1 {
			t.Error("the key went before its time")
		}
		<-time.After(2 * time.Second)
		if n := c.Exists(t.Context(), "k").Val(); n != 0 {
			t.Error("the key outlived its TTL")
		}
		after, err := c.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		if got := after.Sub(before).Round(time.Second); got != 61*time.Second {
			t.Errorf("TIME went on by %s, want 61s", got)
		}
	})
}
