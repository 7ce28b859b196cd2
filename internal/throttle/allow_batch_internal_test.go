package throttle

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/script"
	"github.com/pacer-notify/pacer/test/redistest"
)

// standing is a clock that is set by a key.
const standing = `local function test_clock()
  local t = tonumber(redis.call('GET', 'test:now'))
  return { string.format('%.0f', math.floor(t / 1000000)), string.format('%.0f', t % 1000000) }
end
`

// onStandingClock is a limiter whose time is that of the key test:now. What it keeps does not expire: that goes by the
// real time, and a slow machine takes longer than the shortest windows.
func onStandingClock(client redis.UniversalClient, prefix func(user string) string) *Redis {
	r := NewRedis(client, prefix)
	r.allow = script.New(standing + strings.NewReplacer(
		"redis.call('TIME')", "test_clock()", "redis.call('PEXPIRE', ", "redis.call('EXISTS', ",
	).Replace(LogFunctions+DecideFunctions+lua("admit", "scripts/allow_batch")))
	return r
}

// Admissions that go into one script get the results that they would get one after the other, whatever plans, users and
// key prefixes come together.
func TestAllowedTogetherIsAsAllowedInTurn(t *testing.T) {
	t.Parallel()
	client, apart := redistest.Client(t), redistest.Client(t)
	random := rand.New(rand.NewPCG(rand.Uint64(), 0))
	for round := range *played / 20 {
		prefix := func(user string) string { return strconv.Itoa(round) + ":" + user[:1] + ":" }
		together, inTurn := onStandingClock(client, prefix), onStandingClock(apart, prefix)
		plans := make([]Plan, 1+random.IntN(3))
		for i := range plans {
			plans[i] = randomPlans(random)[0]
		}
		now := 1_800_000_000_000_000
		for range 3 {
			now += random.IntN(400_000)
			for _, c := range []*redis.Client{client, apart} {
				if err := c.Set(t.Context(), "test:now", now, 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			requests := make([]allowRequest, 1+random.IntN(30))
			for i := range requests {
				requests[i] = allowRequest{
					Key{User: string(rune('a'+random.IntN(3))) + "1", Category: "c" + strconv.Itoa(random.IntN(2))},
					plans[random.IntN(len(plans))], "t" + strconv.Itoa(random.IntN(40)),
				}
			}
			results, err := together.allowBatch(t.Context(), requests)
			if err != nil {
				t.Fatal(err)
			}
			for i, q := range requests {
				want, err := inTurn.Allow(t.Context(), q.key, q.plan, q.token)
				if err != nil || results[i].err != nil {
					t.Fatalf("in turn: %v, together: %v", err, results[i].err)
				}
				if diff := cmp.Diff(want, results[i].Decision); diff != "" {
					t.Fatalf("round %d, request %d of %d, %+v (-in turn +together):\n%s",
						round, i, len(requests), q, diff)
				}
			}
		}
	}
}

// When somebody has spoilt the keys of one user, only that user's requests fail. On a cluster each prefix has a script
// of its own.
func TestOneThatFailsFailsAlone(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, "--cluster-enabled", "yes").Client(t)
	if err := client.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	isUp := func() bool { return strings.Contains(client.ClusterInfo(t.Context()).Val(), "cluster_state:ok") }
	for deadline := time.Now().Add(20 * time.Second); !isUp(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the cluster does not come up")
		}
	}
	limiter := NewRedis(client, func(user string) string { return "{" + user + "}:" })
	plan := Plan{Rules: []Rule{{Max: 1, Per: time.Hour}}}
	requests := make([]allowRequest, 9)
	for i := range requests {
		requests[i] = allowRequest{Key{User: "u" + strconv.Itoa(i/2), Category: "c"}, plan, "t" + strconv.Itoa(i)}
	}
	if err := client.Set(t.Context(), plan.StateKey("{u1}:", requests[2].key), "no log", 0).Err(); err != nil {
		t.Fatal(err)
	}
	results, err := limiter.allowBatch(t.Context(), requests)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range results {
		switch {
		case i/2 == 1 && (a.err == nil || !strings.Contains(a.err.Error(), "WRONGTYPE")):
			t.Errorf("the spoilt one got %+v", a)
		case i/2 != 1 && (a.err != nil || a.Allowed != (i%2 == 0)):
			t.Errorf("request %d got %+v", i, a)
		}
	}
}
