package throttle

import (
	"strconv"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/redistest"
)

func TestNext(t *testing.T) {
	t.Parallel()
	gap := Rule{Max: 1, Per: 2, Kind: KindGap}
	gap.Per = 2 * time.Microsecond
	twoInTen := Rule{Max: 2, Per: 10 * time.Microsecond}
	for name, c := range map[string]struct {
		now      Micros
		rules    []Rule
		admitted []Micros
		at       Micros
		rule     int
	}{
		"NoRule":           {5, nil, []Micros{1, 2, 3}, 5, NoRule},
		"Empty":            {5, []Rule{twoInTen}, nil, 5, NoRule},
		"BelowTheLimit":    {1, []Rule{twoInTen}, []Micros{0}, 1, NoRule},
		"JustBefore":       {9, []Rule{twoInTen}, []Micros{0, 1}, 10, 0},
		"ExactlyAtTheEdge": {10, []Rule{twoInTen}, []Micros{0, 1}, 10, NoRule},
		"Gap":              {1, []Rule{twoInTen, gap}, []Micros{0}, 2, 1},
		"FirstOfEqualOnes": {1, []Rule{gap, gap}, []Micros{0}, 2, 0},
		"FutureEntry":      {1, []Rule{gap}, []Micros{0, 7}, 9, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if at, rule := Next(c.now, Log{Rules: c.rules, Admitted: c.admitted}); at != c.at || rule != c.rule {
				t.Errorf("got %d by rule %d, want %d by rule %d", at, rule, c.at, c.rule)
			}
		})
	}
}

// Ten per minute with a gap of 3 s: fifty drain in 267 s, whatever the system does.
func TestProjectIsTheOptimum(t *testing.T) {
	t.Parallel()
	slots := Project(0, 50, Log{Rules: []Rule{{Max: 10, Per: time.Minute}, {Max: 1, Per: 3 * time.Second, Kind: KindGap}}})
	if last := slots[49].Sub(0); last != 267*time.Second {
		t.Errorf("the last of fifty goes after %s, want 267s", last)
	}
}

// Every key that the limiter writes has a time to live, a refusal writes nothing, and a log is never longer than its
// largest limit.
func TestStateIsBounded(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	limiter := NewRedis(client, func(string) string { return "p:" })
	ctx := t.Context()
	for algorithm := range stateLetters {
		plan := Plan{
			Algorithm: Algorithm(algorithm), Rules: []Rule{{Max: 3, Per: time.Hour}, {Max: 5, Per: time.Hour, Kind: KindCap}},
		}
		key := Key{User: "u" + strconv.Itoa(algorithm), Category: "chat"}
		refused := 0
		var first Decision
		for i := range 500 {
			d, err := limiter.Allow(ctx, key, plan, "t"+strconv.Itoa(i))
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed {
				continue
			}
			if refused++; refused == 1 {
				first = d
			} else if d.At != first.At {
				t.Fatalf("%s: refusal %d moved the next moment from %d to %d", plan.Algorithm, refused, first.At, d.At)
			}
		}
		if refused != 497 {
			t.Errorf("%s: %d refused, want 497", plan.Algorithm, refused)
		}
		if found, err := limiter.Refund(ctx, key, plan, "t2", first.Now); err != nil || !found {
			t.Errorf("%s: refund of the last one: %t, %v", plan.Algorithm, found, err)
		}
		if d, err := limiter.Allow(ctx, key, plan, "again"); err != nil || !d.Allowed {
			t.Errorf("%s: after the refund: %+v, %v", plan.Algorithm, d, err)
		}
	}
	keys, err := client.Keys(ctx, "*").Result()
	if err != nil || len(keys) == 0 {
		t.Fatalf("keys %v, %v", keys, err)
	}
	for _, key := range keys {
		if ttl := client.PTTL(ctx, key).Val(); ttl <= 0 || ttl > time.Hour+time.Second {
			t.Errorf("%s lives for %s", key, ttl)
		}
		if n := client.ZCount(ctx, key, "(0", "+inf").Val(); n > 5 {
			t.Errorf("%s has %d entries", key, n)
		}
	}
}
