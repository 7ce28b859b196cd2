package throttle_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// crowd is the plan that concurrent callers ask under: full most of the time, with every kind of rule in play.
var crowd = throttle.Plan{
	Rules: []throttle.Rule{
		{Max: 3, Per: 20 * time.Millisecond},
		{Max: 1, Per: 2 * time.Millisecond, Kind: throttle.KindGap},
		{Max: 8, Per: 80 * time.Millisecond, Kind: throttle.KindCap},
	},
}

// admissions is the state of the sequential specification: what one user was admitted, oldest first, and the latest
// moment at which the limiter decided.
type admissions struct {
	times []throttle.Micros
	clock throttle.Micros
}

// specification is [throttle.Next] as a porcupine model: every decision must be the one that Next makes after those
// that went before, at the moment that the limiter names. Each user has a history of their own.
func specification() porcupine.Model {
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byUser := map[string][]porcupine.Operation{}
			for _, op := range history {
				user, _ := op.Input.(string)
				byUser[user] = append(byUser[user], op)
			}
			var parts [][]porcupine.Operation
			for _, part := range byUser {
				parts = append(parts, part)
			}
			return parts
		},
		Init: func() any { return admissions{} },
		Step: func(before, _, output any) (bool, any) {
			s, _ := before.(admissions)
			d, _ := output.(throttle.Decision)
			if d.Now < s.clock {
				return false, before
			}
			at, by := throttle.Next(d.Now, crowd.Closed,
				throttle.Log{Rules: crowd.CategoryRules(), Admitted: s.times},
				throttle.Log{Rules: crowd.CapRules(), Admitted: s.times})
			after := admissions{times: s.times, clock: d.Now}
			if at == d.Now {
				after.times = append(slices.Clip(s.times), at)
			}
			return d == throttle.Decision{Allowed: at == d.Now, At: at, Now: d.Now, Cause: by}, after
		},
		Equal: func(a, b any) bool {
			x, _ := a.(admissions)
			y, _ := b.(admissions)
			return x.clock == y.clock && slices.Equal(x.times, y.times)
		},
	}
}

// history lets callers ask at once for some users, and notes when each call began and returned.
func history(
	t *testing.T, allow func(ctx context.Context, user, token string) (throttle.Decision, error),
) []porcupine.Operation {
	t.Helper()
	const callers, users, calls = 12, 4, 150
	records := make([][]porcupine.Operation, callers)
	began := time.Now()
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := range calls {
				user := strconv.Itoa((caller + i) % users)
				call := time.Since(began)
				d, err := allow(t.Context(), user, strconv.Itoa(caller)+"-"+strconv.Itoa(i))
				if err != nil {
					t.Errorf("ask for user %s: %v", user, err)
					return
				}
				records[caller] = append(records[caller], porcupine.Operation{
					ClientId: caller, Input: user, Call: call.Nanoseconds(), Output: d,
					Return: time.Since(began).Nanoseconds(),
				})
			}
		})
	}
	wg.Wait()
	return slices.Concat(records...)
}

// Whatever callers of several clients do at once, the decisions are those of a limiter that is asked one at a time.
func TestConcurrentDecisionsAreLinearizable(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, limiters := range map[string][]throttle.Limiter{
		"Redis":  {throttle.NewRedis(server.Client(t), prefix), throttle.NewRedis(server.Client(t), prefix)},
		"Memory": {throttle.NewMemory(time.Now)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ops := history(t, func(ctx context.Context, user, token string) (throttle.Decision, error) {
				limiter := limiters[len(token)%len(limiters)]
				return limiter.Allow(ctx, throttle.Key{User: user, Category: "chat"}, crowd, token)
			})
			if verdict := porcupine.CheckOperationsTimeout(specification(), ops, time.Minute); verdict != porcupine.Ok {
				t.Fatalf("%d decisions: %s", len(ops), verdict)
			}
		})
	}
}

// The check above can fail: asking first and counting afterwards, in two scripts, is found out.
func TestLinearizabilityFindsALimiterInTwoSteps(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	limiter := throttle.NewRedis(server.Client(t), prefix)
	client := server.Client(t)
	ops := history(t, func(ctx context.Context, user, token string) (throttle.Decision, error) {
		key := throttle.Key{User: user, Category: "chat"}
		usage, err := limiter.Peek(ctx, key, crowd)
		if err != nil || !usage.Allowed {
			return usage.Decision, err
		}
		entry := redis.Z{Score: float64(usage.At), Member: token}
		_, err = client.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.ZAdd(ctx, crowd.StateKey(prefix(user), key), entry)
			p.ZAdd(ctx, throttle.CapKey(prefix(user), key), entry)
			return nil
		})
		return usage.Decision, err
	})
	if verdict := porcupine.CheckOperationsTimeout(specification(), ops, time.Minute); verdict != porcupine.Illegal {
		t.Fatalf("%d decisions of a limiter that is not atomic: %s", len(ops), verdict)
	}
}
