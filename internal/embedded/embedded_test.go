package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/embedded"
)

// start runs one until the test ends.
func start(t *testing.T) *embedded.Redis {
	t.Helper()
	in := embedded.Start(t.Context())
	t.Cleanup(func() {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	})
	return in
}

func set(t *testing.T, in *embedded.Redis, key string, life time.Duration) {
	t.Helper()
	if err := in.Client().Set(t.Context(), key, "v", life).Err(); err != nil {
		t.Fatal(err)
	}
}

func lives(t *testing.T, in *embedded.Redis, key string) bool {
	t.Helper()
	n, err := in.Client().Exists(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n == 1
}

// coarse is how much earlier or later than its time a key may go.
const coarse = 500 * time.Millisecond

func TestKeysExpireByThemselves(t *testing.T) {
	t.Parallel()
	lifetimes := []time.Duration{time.Millisecond, 700 * time.Millisecond, 3 * time.Second, 5 * time.Minute}
	for _, offset := range []time.Duration{0, 1, 250 * time.Millisecond, 499 * time.Millisecond} { // to the sweeps
		for _, life := range lifetimes {
			t.Run(fmt.Sprintf("for %s, set %s after the start", life, offset), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					in := start(t)
					<-time.After(offset)
					set(t, in, "k", life)
					set(t, in, "for ever", 0)
					begin := time.Now()
					if life > coarse {
						<-time.After(time.Until(begin.Add(life - coarse - 1)))
						if !lives(t, in, "k") {
							t.Errorf("the key has gone more than %s before its time", coarse)
						}
					}
					<-time.After(time.Until(begin.Add(life + coarse + 1)))
					if lives(t, in, "k") {
						t.Errorf("the key is still there more than %s after its time", coarse)
					}
					if !lives(t, in, "for ever") {
						t.Error("a key without a time has gone")
					}
				})
			})
		}
	}
}

// A process that was kept from its sweeps ages no key by more than one sweep: what was written a moment ago would go
// with what is old.
func TestPauseEndsNoYoungKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := start(t)
		set(t, in, "k", 2*coarse)
		in.Age(time.Hour)
		if !lives(t, in, "k") {
			t.Errorf("a key for %s has gone at once", 2*coarse)
		}
		if left := in.Client().PTTL(t.Context(), "k").Val(); left != coarse {
			t.Errorf("it has %s left, want %s", left, coarse)
		}
		in.Age(coarse)
		if lives(t, in, "k") {
			t.Error("the key is still there after its time")
		}
	})
}

func TestTimeIsThisProcesss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := start(t)
		for range 3 {
			<-time.After(1234567 * time.Microsecond)
			got, err := in.Client().Time(t.Context()).Result()
			if err != nil {
				t.Fatal(err)
			}
			if want := time.Now().Truncate(time.Microsecond); !got.Equal(want) {
				t.Errorf("TIME is %s, want %s", got, want)
			}
		}
	})
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	in := start(t)
	const callers, each = 16, 6
	script := redis.NewScript(`
		local n = redis.call("INCR", KEYS[1])
		redis.call("HSET", KEYS[2], ARGV[1], n)
		redis.call("PEXPIRE", KEYS[2], 60000)
		return n`)
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := range each {
				field := strconv.Itoa(caller) + "-" + strconv.Itoa(i)
				if err := script.Run(t.Context(), in.Client(), []string{"n", "h"}, field).Err(); err != nil {
					t.Errorf("call %s: %v", field, err)
				}
			}
		})
	}
	all.Wait()
	fields, err := in.Client().HVals(t.Context(), "h").Result()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, n := range fields {
		seen[n] = true
	}
	if n := in.Client().Get(t.Context(), "n").Val(); n != strconv.Itoa(callers*each) || len(seen) != callers*each {
		t.Errorf("%d calls counted to %s and gave %d different numbers", callers*each, n, len(seen))
	}
}

func TestInstancesAreApart(t *testing.T) {
	t.Parallel()
	a, b := start(t), start(t)
	set(t, a, "k", 0)
	if !lives(t, a, "k") || lives(t, b, "k") {
		t.Errorf("the key is in the first: %t, in the second: %t", lives(t, a, "k"), lives(t, b, "k"))
	}
}

// It is closed after everything that uses it, so the end of a context is not its end.
func TestOutlivesItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		in := embedded.Start(ctx)
		cancel()
		set(t, in, "k", time.Second)
		<-time.After(2 * time.Second)
		if lives(t, in, "k") {
			t.Error("keys don't expire any more")
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Close ends commands that are under way, with an error; nothing goes on afterwards, which the end of the bubble
// proves.
func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := embedded.Start(t.Context())
		client := in.Client()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for client.Incr(context.Background(), "n").Err() == nil {
					<-time.After(time.Millisecond)
				}
			})
		}
		blocked := make(chan error, 1)
		go func() { blocked <- client.BLPop(context.Background(), 0, "never").Err() }()
		subscription := client.Subscribe(t.Context(), "news")
		if _, err := subscription.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		all.Wait()
		if err := <-blocked; err == nil {
			t.Error("the blocked command ended well")
		}
		if err := subscription.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			t.Error(err)
		}
		if err := client.Ping(context.Background()).Err(); !errors.Is(err, redis.ErrClosed) {
			t.Errorf("after Close a command gives %v, want %v", err, redis.ErrClosed)
		}
		if err := in.Close(); !errors.Is(err, redis.ErrClosed) {
			t.Errorf("a second Close gives %v, want %v", err, redis.ErrClosed)
		}
	})
}
