package throttle

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/redistest"
)

// traces is how many random traces are played on each engine.
const traces = 10_000

// step is one question of a trace: may something happen at this moment, or take an admission back.
type step struct {
	at     Micros
	token  string
	refund int // index of the step whose admission is taken back; -1: ask for one
}

// verdict is what a step was answered.
type verdict struct {
	allowed bool
	at      Micros
	rule    int
}

// driver plays a whole trace in one script, so that ten thousand are cheap.
//
// KEYS[1] state, KEYS[2] log of the cap; ARGV[1] number of steps, then for each: moment, token, moment of the admission to
// be taken back (0: ask for one); then the plan.
const driver = `
local n = tonumber(ARGV[1])
local out = {}
for i = 0, n - 1 do
  local now, token, back = tonumber(ARGV[2 + 3 * i]), ARGV[3 + 3 * i], tonumber(ARGV[4 + 3 * i])
  local plan = read_plan(2 + 3 * n, KEYS[1], KEYS[2])
  if back == 0 then
    local allowed, at, why = admit(plan, now, token)
    out[#out + 1] = allowed
    out[#out + 1] = at
    out[#out + 1] = why
  else
    out[#out + 1] = refund(plan, back, token) and 1 or 0
    out[#out + 1] = 0
    out[#out + 1] = 0
  end
end
redis.call('DEL', KEYS[1], KEYS[2])
return out
`

// The Lua limiter and the pure functions agree on every decision of every trace.
func TestLuaAgreesWithThePureFunctions(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) *redis.Client{"Redis": redistest.Client, "Miniredis": redistest.Mini} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := open(t)
			script := redis.NewScript(Functions + admitSource + driver)
			seed := rand.Uint64()
			random := rand.New(rand.NewPCG(seed, 0))
			admitted := 0
			for trace := range traces {
				plan, steps := randomTrace(random)
				want := playPure(plan, steps)
				got := playLua(t, client, script, plan, steps, want)
				if !slices.Equal(got, want) {
					t.Fatalf("seed %d, trace %d: plan %+v\nsteps %+v\npure %+v\nLua  %+v", seed, trace, plan, steps, want, got)
				}
				admitted += checkPromise(t, plan, steps, want)
			}
			if admitted < traces {
				t.Errorf("only %d admissions in %d traces: the traces test too little", admitted, traces)
			}
		})
	}
}

func randomTrace(r *rand.Rand) (Plan, []step) {
	plan := Plan{Algorithm: Algorithm(r.IntN(3))}
	for range r.IntN(3) {
		per := time.Duration(1+r.IntN(2000)) * time.Millisecond
		if !slices.ContainsFunc(plan.Rules, func(known Rule) bool { return known.Per == per }) {
			plan.Rules = append(plan.Rules, Rule{Max: 1 + r.IntN(5), Per: per})
		}
	}
	if r.IntN(2) == 0 {
		plan.Rules = append(plan.Rules, Rule{Max: 1, Per: time.Duration(1+r.IntN(500)) * time.Millisecond, Kind: KindGap})
	}
	if r.IntN(2) == 0 {
		plan.Cap = []Rule{{Max: 1 + r.IntN(6), Per: time.Duration(1+r.IntN(3000)) * time.Millisecond, Kind: KindCap}}
	}
	now := Micros(1_800_000_000_000_000)
	steps := make([]step, 2+r.IntN(24))
	for i := range steps {
		now += Micros(r.IntN(400_000))
		steps[i] = step{at: now, token: "t" + strconv.Itoa(i), refund: -1}
		if i > 0 && plan.Algorithm == Rolling && r.IntN(6) == 0 {
			steps[i].refund = r.IntN(i)
		}
	}
	return plan, steps
}

// playPure answers a trace by Next over plain logs, and for the other algorithms by Memory, whose counters are their
// specification.
func playPure(plan Plan, steps []step) []verdict {
	if plan.Algorithm != Rolling {
		return playMemory(plan, steps)
	}
	verdicts := make([]verdict, len(steps))
	state := Log{Rules: plan.Rules}
	limit := Log{Rules: plan.Cap}
	for i, s := range steps {
		if s.refund >= 0 {
			back := verdicts[s.refund]
			if back.allowed && steps[s.refund].refund < 0 {
				state.Admitted = slices.DeleteFunc(state.Admitted, func(at Micros) bool { return at == back.at })
				limit.Admitted = slices.DeleteFunc(limit.Admitted, func(at Micros) bool { return at == back.at })
			}
			continue // whether it was still remembered is not the question: a log forgets what can't matter any more
		}
		at, rule := Next(s.at, state, limit)
		verdicts[i] = verdict{allowed: at <= s.at, at: at, rule: rule}
		if at <= s.at {
			state.Admitted = append(state.Admitted, at)
			limit.Admitted = append(limit.Admitted, at)
		}
	}
	return verdicts
}

func playMemory(plan Plan, steps []step) []verdict {
	now := time.Time{}
	memory := NewMemory(func() time.Time { return now })
	verdicts := make([]verdict, len(steps))
	for i, s := range steps {
		now = s.at.Time()
		d, err := memory.Allow(context.Background(), Key{User: "ada", Category: "chat"}, plan, s.token)
		if err != nil {
			panic(err) // the test's own plan is refused
		}
		verdicts[i] = verdict{allowed: d.Allowed, at: d.At, rule: d.Rule}
	}
	return verdicts
}

func playLua(t *testing.T, client *redis.Client, script *redis.Script, plan Plan, steps []step, want []verdict) []verdict {
	t.Helper()
	args := []any{strconv.Itoa(len(steps))}
	for _, s := range steps {
		token, back := s.token, "0"
		if s.refund >= 0 {
			token = steps[s.refund].token
			back = strconv.FormatInt(max(1, int64(want[s.refund].at)), 10)
		}
		args = append(args, strconv.FormatInt(int64(s.at), 10), token, back)
	}
	reply, err := script.Run(t.Context(), client, []string{"state", "cap"}, plan.Args(args)...).Int64Slice()
	if err != nil {
		t.Fatalf("play a trace: %v", err)
	}
	verdicts := make([]verdict, len(steps))
	for i, s := range steps {
		if s.refund >= 0 {
			continue
		}
		verdicts[i] = verdict{allowed: reply[3*i] == 1, at: Micros(reply[3*i+1]), rule: int(reply[3*i+2]) - 1}
	}
	return verdicts
}

// checkPromise holds the admissions that were kept against what the algorithm promises for any window, and counts them.
func checkPromise(t *testing.T, plan Plan, steps []step, verdicts []verdict) int {
	t.Helper()
	var kept []Micros
	refunded := map[int]bool{}
	for _, s := range steps {
		refunded[s.refund] = true
	}
	for i, v := range verdicts {
		if steps[i].refund < 0 && v.allowed && !refunded[i] {
			kept = append(kept, v.at)
		}
	}
	for _, rule := range plan.All() {
		most := rule.Max
		if plan.Algorithm != Rolling && rule.Kind == KindLimit {
			most = 2*rule.Max - 1
		}
		for i := most; i < len(kept); i++ {
			if kept[i].Sub(kept[i-most]) < rule.Per {
				t.Fatalf("%s admits more than %d in %s: %v", plan.Algorithm, most, rule.Per, kept)
			}
		}
	}
	return len(kept)
}

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
			Algorithm: Algorithm(algorithm), Rules: []Rule{{Max: 3, Per: time.Hour}},
			Cap: []Rule{{Max: 5, Per: time.Hour, Kind: KindCap}},
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
		if n := client.ZCard(ctx, key).Val(); n > 5 {
			t.Errorf("%s has %d entries", key, n)
		}
	}
}
