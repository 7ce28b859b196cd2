package throttle

import (
	"strconv"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/redistest"
)

func TestNext(t *testing.T) {
	t.Parallel()
	gap := Rule{Max: 1, Per: 2 * time.Microsecond, Kind: KindGap}
	twoInTen := Rule{Max: 2, Per: 10 * time.Microsecond}
	for name, c := range map[string]struct {
		now      Micros
		rules    []Rule
		closed   Closed
		admitted []Micros
		at       Micros
		rule     int
		priority int
		opens    bool
	}{
		"NoRule":           {now: 5, rules: nil, admitted: []Micros{1, 2, 3}, at: 5, rule: NoRule},
		"Empty":            {now: 5, rules: []Rule{twoInTen}, admitted: nil, at: 5, rule: NoRule},
		"BelowTheLimit":    {now: 1, rules: []Rule{twoInTen}, admitted: []Micros{0}, at: 1, rule: NoRule},
		"JustBefore":       {now: 9, rules: []Rule{twoInTen}, admitted: []Micros{0, 1}, at: 10, rule: 0},
		"ExactlyAtTheEdge": {now: 10, rules: []Rule{twoInTen}, admitted: []Micros{0, 1}, at: 10, rule: NoRule},
		"Gap":              {now: 1, rules: []Rule{twoInTen, gap}, admitted: []Micros{0}, at: 2, rule: 1},
		"FirstOfEqualOnes": {now: 1, rules: []Rule{gap, gap}, admitted: []Micros{0}, at: 2, rule: 0},
		"FutureEntry":      {now: 1, rules: []Rule{gap}, admitted: []Micros{0, 7}, at: 9, rule: 0},
		"KeptForTheUrgent": {
			now: 2, rules: []Rule{{Max: 3, Per: 10 * time.Microsecond, Reserve: Reserve{0, 1}}},
			admitted: []Micros{0, 1}, priority: 3,
			at: 10, rule: 0,
		},
		"TheUrgent": {
			now: 2, rules: []Rule{{Max: 3, Per: 10 * time.Microsecond, Reserve: Reserve{0, 1}}},
			admitted: []Micros{0, 1}, priority: 2, at: 2,
			rule: NoRule,
		},
		"Night":       {now: 5, closed: Closed{{4, 8}}, at: 8, rule: NoRule, opens: true},
		"NightBegins": {now: 4, closed: Closed{{4, 8}}, at: 8, rule: NoRule, opens: true},
		"NightIsOver": {now: 8, closed: Closed{{4, 8}, {9, 10}}, at: 8, rule: NoRule},
		"SlotAtNight": {
			now: 1, rules: []Rule{gap}, admitted: []Micros{7}, closed: Closed{{2, 3}, {9, 12}},
			at: 12, rule: 0, opens: true,
		},
		"SlotAfterTheNight": {now: 3, rules: []Rule{gap}, admitted: []Micros{7}, closed: Closed{{2, 9}}, at: 9, rule: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := Cause{Rule: c.rule, Closed: c.opens}
			log := Log{Rules: c.rules, Admitted: c.admitted, Priority: c.priority}
			if at, by := Next(c.now, c.closed, log); at != c.at || by != want {
				t.Errorf("got %d by %+v, want %d by %+v", at, by, c.at, want)
			}
		})
	}
}

// Every key that the limiter writes has a time to live, a refusal writes nothing, and a log is never longer than its
// largest limit.
func TestStateIsBounded(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	limiter := NewRedis(client, func(string) string { return "p:" })
	ctx := t.Context()
	for algorithm := range algorithms {
		plan := Plan{
			Algorithm: Algorithm(algorithm), Rules: []Rule{
				{Max: 3, Per: time.Hour}, {Max: 5, Per: time.Hour, Kind: KindCap},
			},
		}
		key := Key{User: "u" + strconv.Itoa(algorithm), Category: "chat"}
		refused := 0
		var first, last Decision
		for i := range 500 {
			d, err := limiter.Allow(ctx, key, plan, "t"+strconv.Itoa(i))
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed {
				last = d
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
		if found, err := limiter.Refund(ctx, key, plan, "t2", last.At); err != nil || !found {
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
