package throttle

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/test/redistest"
)

// traces is how many random traces make test plays. make chaos plays 30,000, and as many must find each fault that
// make chaos-red plants.
const (
	traces    = 900
	redTraces = 30_000
)

// played is how many random traces Redis plays. The engine in this process takes five times as long for each, so it
// plays a sixth.
var played = flag.Int("traces", traces, "play so many random traces on Redis, and a sixth of them on Miniredis")

// The kinds of steps of a trace.
type act int

const (
	ask    act = iota // may something happen now?
	ahead             // may it happen by the horizon? So the dispatcher asks, and it is granted for its own moment.
	bypass            // it happens whatever the rules say, after what was granted ahead
	refund            // an earlier admission is taken back
)

// engines are the servers on which traces are played. Each plays one of so many of the random ones.
var engines = map[string]struct {
	open  func(testing.TB) *redis.Client
	oneOf int
}{
	"Redis":     {redistest.Client, 1},
	"Miniredis": {redistest.Mini, 6},
}

// horizon is how far ahead of now a grant may lie, in µs.
const horizon = Micros(Horizon / time.Microsecond)

// step is one thing that happens to a limiter.
type step struct {
	act   act
	at    Micros // on the limiter's clock
	real  Micros // on a clock that nobody sets
	plan  int
	token string
	of    int // the step whose admission is taken back
}

// trace is steps under plans that take turns. The first plan is the deepest.
type trace struct {
	plans []Plan
	steps []step
	// setBack tells that the limiter's clock is.
	setBack bool
}

// verdict is the result of a step.
type verdict struct {
	done bool // admitted, or refunded
	at   Micros
	by   Cause
}

// driver plays a whole trace in one script, so that ten thousand are cheap.
//
// KEYS[1] state, KEYS[2] log of the cap; ARGV[1] number of steps, then for each: act, moment, token, moment of the
// admission to be taken back, where its plan begins; then the plans.
const driver = `
local n = tonumber(ARGV[1])
local out = {}
for i = 2, 5 * n, 5 do
  local act, token, back = ARGV[i], ARGV[i + 2], tonumber(ARGV[i + 3])
  local now = go_to(tonumber(ARGV[i + 1]))
  local plan = read_plan(tonumber(ARGV[i + 4]), KEYS[1], KEYS[2])
  for _, cap in ipairs(plan.named) do cap.key = cap.name end
  local done, at, why = 0, 0, 0
  if act == '0' then
    done, at, why = admit(plan, now, token)
  elseif act == '1' then
    at, why = decide_now(plan, now)
    if at <= now + HORIZON then
      charge(plan, now, at, token)
      done = 1
    end
  elseif act == '2' then
    done, at = 1, bypass_at(plan, now)
    charge(plan, now, at, token)
  else
    done = refund(plan, back, token) and 1 or 0
  end
  out[#out + 1] = done
  out[#out + 1] = at
  out[#out + 1] = why
end
redis.call('DEL', KEYS[1], KEYS[2], 'a', 'b')
return out
`

// clockOfTrace stands before the limiter's functions: keys expire by the clock of the trace.
const clockOfTrace = `
local server, redis, clock, last = redis, {}, 0, {}
function redis.call(name, key, ...)
  if name ~= 'PEXPIRE' then return server.call(name, key, ...) end
  last[key] = math.floor(clock / 1000) + tonumber(...)
end
local function go_to(now)
  clock = now
  for key, ms in pairs(last) do
    if math.floor(now / 1000) > ms then
      server.call('DEL', key)
      last[key] = nil
    end
  end
  return now
end
`

// tracePlayer puts the driver after the limiter's functions, with one place of them changed.
func tracePlayer(t *testing.T, old, replacement string) *redis.Script {
	t.Helper()
	source := LogFunctions + Functions + lua("admit")
	if strings.Count(source, old) < 1 {
		t.Fatalf("the limiter's functions do not hold %q", old)
	}
	return redis.NewScript(clockOfTrace + strings.Replace(source, old, replacement, 1) + driver)
}

// The Lua limiter, the limiter in memory and the pure functions agree on every step of every trace.
func TestLuaAgreesWithThePureFunctions(t *testing.T) {
	t.Parallel()
	for name, engine := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, sound := engine.open(t), tracePlayer(t, "\n", "\n")
			seed := rand.Uint64()
			random := rand.New(rand.NewPCG(seed, 0))
			plays, admitted := *played/engine.oneOf, 0
			for n := range plays {
				tr := randomTrace(random)
				fault, count := disagreement(t, client, sound, tr)
				if fault != "" {
					t.Fatalf("seed %d, trace %d: %s\n%s", seed, n, fault, tr)
				}
				admitted += count
			}
			if admitted < 4*plays {
				t.Errorf("only %d admissions in %d traces: the traces test too little", admitted, plays)
			}
		})
	}
}

// disagreement plays a trace on all three, and reports where they differ or break their promise; it counts the
// admissions.
func disagreement(t *testing.T, client *redis.Client, script *redis.Script, tr trace) (fault string, admitted int) {
	t.Helper()
	memory, longest := playMemory(tr)
	if most := 6 + logRoom; longest > most {
		return fmt.Sprintf("a log holds %d, more than %d", longest, most), 0
	}
	lua := playLua(t, client, script, tr, memory)
	if i := firstDifference(lua, memory); i >= 0 {
		return fmt.Sprintf("step %d: Lua says %+v, memory %+v", i, lua[i], memory[i]), 0
	}
	if tr.plans[0].Algorithm == Rolling {
		if fault := againstSpecification(tr, memory); fault != "" {
			return fault, 0
		}
	}
	if fault := overdrawn(tr, memory); fault != "" {
		return fault, 0
	}
	return brokenPromise(tr, memory)
}

func firstDifference(a, b []verdict) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// String writes a trace for people.
func (tr trace) String() string {
	var text strings.Builder
	for i, p := range tr.plans {
		fmt.Fprintf(&text, "plan %d: %s %v %+v dormant %v closed %v of %+v\n", i, p.Algorithm, p.Rules, p.Rules, p.Dormant,
			p.Closed, p.Head)
	}
	for i, s := range tr.steps {
		name := [...]string{"ask", "ahead", "bypass", "refund"}[s.act]
		fmt.Fprintf(&text, "%3d %s at %d plan %d of %d, %s\n", i, name, s.at-epochOfTraces, s.plan, s.of, s.token)
	}
	return text.String()
}

// playMemory also reports how long a log became at most.
func playMemory(tr trace) (verdicts []verdict, longest int) {
	now := time.Time{}
	memory := NewMemory(func() time.Time { return now })
	verdicts = make([]verdict, len(tr.steps))
	for i, s := range tr.steps {
		now = s.at.Time()
		verdicts[i] = memory.play(s, tr.planOf(i), tr, verdicts)
		for _, c := range memory.cells {
			longest = max(longest, len(c.times))
		}
	}
	return verdicts, longest
}

func (m *Memory) play(s step, plan Plan, tr trace, before []verdict) verdict {
	q := m.newRequest(Key{User: "ada", Category: "chat"}, plan)
	switch s.act {
	case ask:
		d := m.admit(q, s.token)
		return verdict{d.Allowed, d.At, d.Cause}
	case ahead:
		at, by := q.decideNow()
		if at <= q.now+horizon {
			m.charge(q, at, s.token)
		}
		return verdict{at <= q.now+horizon, at, by}
	case bypass:
		at := q.bypass()
		m.charge(q, at, s.token)
		return verdict{true, at, Cause{Rule: NoRule}}
	case refund:
	}
	token, at := tr.taken(s.of, before)
	return verdict{done: q.removeAdmission(token, at), by: Cause{Rule: NoRule}}
}

// planOf is the plan under which a step happens. A refund's has the named caps that counted what is taken back: agendas
// note them with each grant.
func (tr trace) planOf(i int) Plan {
	s := tr.steps[i]
	plan := tr.plans[s.plan]
	if s.act != refund {
		return plan
	}
	granted := tr.plans[tr.steps[s.of].plan]
	plan.Rules = slices.Clip(plan.Rules[:plan.from(KindNamed)])
	for _, rule := range granted.Rules[granted.from(KindNamed):] {
		if rule.CountsOn(granted.Head.Channel) {
			plan.Rules = append(plan.Rules, rule)
		}
	}
	return plan
}

// taken returns what a refund names: the admission of a step, or nobody's when it was none, or was taken back before.
func (tr trace) taken(of int, verdicts []verdict) (token string, at Micros) {
	if !verdicts[of].done || tr.steps[of].act == refund {
		return "unknown", 1
	}
	return tr.steps[of].token, verdicts[of].at
}

func playLua(t *testing.T, client *redis.Client, script *redis.Script, tr trace, memory []verdict) []verdict {
	t.Helper()
	args := []any{strconv.Itoa(len(tr.steps))}
	plans := slices.Clone(tr.plans)
	begins := make([]int, 0, len(plans)+len(tr.steps))
	next := 2 + 5*len(tr.steps)
	begin := func(p Plan) {
		begins = append(begins, next)
		next += p.argCount()
	}
	for _, p := range plans {
		begin(p)
	}
	for i, s := range tr.steps {
		token, back, plan := s.token, "0", s.plan
		if s.act == refund {
			name, at := tr.taken(s.of, memory)
			token, back, plan = name, strconv.FormatInt(int64(at), 10), len(plans)
			plans = append(plans, tr.planOf(i))
			begin(plans[plan])
		}
		args = append(args, strconv.Itoa(int(s.act)), strconv.FormatInt(int64(s.at), 10), token, back,
			strconv.Itoa(begins[plan]))
	}
	for _, p := range plans {
		args = p.Args(args)
	}
	reply, err := script.Run(t.Context(), client, []string{"state", "cap"}, args...).Int64Slice()
	if err != nil {
		t.Fatalf("play a trace: %v", err)
	}
	verdicts := make([]verdict, len(tr.steps))
	for i := range tr.steps {
		verdicts[i] = verdict{done: reply[3*i] == 1, at: Micros(reply[3*i+1]), by: CauseOf(reply[3*i+2])}
	}
	return verdicts
}
