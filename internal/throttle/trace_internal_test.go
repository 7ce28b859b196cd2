package throttle

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/test/redistest"
)

// traces is how many random traces are played on each engine.
const traces = 3_000

// The kinds of steps of a trace.
type act int

const (
	ask    act = iota // may something happen now?
	ahead             // may it happen by the horizon? So the dispatcher asks, and it is granted for its own moment.
	bypass            // it happens now, whatever the rules say
	refund            // an earlier admission is taken back
)

// engines are the servers on which traces are played.
var engines = map[string]func(testing.TB) *redis.Client{"Redis": redistest.Client, "Miniredis": redistest.Mini}

// horizon is how far ahead of now a grant may lie.
const horizon = 10_000

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
    if at <= now + 10000 then
      charge(plan, now, at, token)
      done = 1
    end
  elseif act == '2' then
    charge(plan, now, now, token)
    done, at = 1, now
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
	for name, open := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, sound := open(t), tracePlayer(t, "\n", "\n")
			seed := rand.Uint64()
			random := rand.New(rand.NewPCG(seed, 0))
			admitted := 0
			for n := range traces {
				played := randomTrace(random)
				fault, count := disagreement(t, client, sound, played)
				if fault != "" {
					t.Fatalf("seed %d, trace %d: %s\n%s", seed, n, fault, played)
				}
				admitted += count
			}
			if admitted < 4*traces {
				t.Errorf("only %d admissions in %d traces: the traces test too little", admitted, traces)
			}
		})
	}
}

// Each fault of a limiter that was found in use is found by the traces.
func TestTracesFindFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, replacement string }{
		"a bypass trims what a refund brings back": {
			old: "digits(math.min(beyond, now - per))", replacement: "digits(beyond)",
		},
		"a log is as deep as the smaller rule": {
			old: "local n, t = depth_of(key)", replacement: "local n, t = log.max, log.per",
		},
		"only the number is remembered": {old: "most, per = n, t", replacement: "most, per = n, log.per"},
		"dormant rules are forgotten": {
			old:         "local among = kind == KIND_DORMANT",
			replacement: "if kind == KIND_DORMANT then max, per = 0, 0 end local among = kind == KIND_DORMANT",
		},
		"a refund forgets what was cut off": {
			old: "redis.call('ZADD', key, cut, '/-' .. token)", replacement: "",
		},
		"logs grow without end": {
			old: "if excess <= 0 then return end", replacement: "if excess <= 0 or excess > 0 then return end",
		},
		"a key lives by the entry written last": {old: "(log.newest - now + per)", replacement: "(at - now + per)"},
		"a refused one is counted": {
			old:         "if at > now then return 0, at, why end",
			replacement: "if at > now then charge(plan, now, now, token) return 0, at, why end",
		},
		"a clock set back is not noticed":          {old: "    repair(plan, now)\n", replacement: ""},
		"a refund frees what an empty bucket owed": {old: "c.owed = c.owed + c.load - full", replacement: ""},
		"a refund takes the gap before for kept": {
			old: "c.gap = c.before", replacement: "c.gap = at - plan.state_log.per",
		},
		"counters forget rules that may come back": {old: "not opened[string.sub(name, 2)]", replacement: "false"},
		"limits of one window share a bucket":      {old: "own = true,", replacement: ""},
		"a bucket that is new is full": {
			old: "if most < 0 then return end", replacement: "if most then return end",
		},
		"a bucket gives back what it never took": {old: "at <= c.since or ", replacement: ""},
		"all see what is kept for the urgent": {
			old: "local most = rule.seen and rule.seen[plan.priority] or rule.max", replacement: "local most = rule.max",
		},
		"a reserve makes a log shorter": {
			old: "if ahead.count == 0 and most == log.max", replacement: "if ahead.count == 0 and rule.max == log.max",
		},
		"a period is as long as it can be": {old: "if begins > at then return begins end", replacement: ""},
		"a period may end late": {
			old: "if begins > at then return", replacement: "if begins > at + 100000 then return",
		},
		"a moment is in the period before": {
			old: "if begins > at then return", replacement: "if begins >= at then return",
		},
		"a cap counts on every channel": {
			old: "if not cap.channels or not channel then return true end", replacement: "if true then return true end",
		},
		"a cap does not know senders with names": {
			old:         "string.find(cap.channels, ' ' .. string.match(channel, '^[^:]*') .. ' ', 1, true)",
			replacement: "nil",
		},
		"an unknown channel counts in no cap": {
			old:         "if not cap.channels or not channel then return true end",
			replacement: "if not cap.channels then return true end if not channel then return false end",
		},
		"named caps are not charged": {
			old: "    if counts_in(plan, cap) then charge_log(cap.key, cap.log, now, at, token) end\n", replacement: "",
		},
		"named caps are not refunded": {
			old: "    if refund_log(cap.key, token) then found = true end\n", replacement: "",
		},
		"named caps share a log": {old: "if not last or last.name ~= cap then", replacement: "if not last then"},
		"named caps are not repaired": {
			old: "  for _, cap in ipairs(plan.named) do repair_log(cap.key, cap.log) end\n", replacement: "",
		},
		"the first moment is closed": {
			old: "if at < closed.from then", replacement: "if at <= closed.from then",
		},
		"nobody waits for the end": {
			old: "if at < over then at = over end", replacement: "if at < over then at = at + 1 end",
		},
		"a slot ahead may be closed": {
			old: "return opened(plan, at, why, latest)", replacement: "return at, why, latest",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, faulty := redistest.Client(t), tracePlayer(t, c.old, c.replacement)
			random := rand.New(rand.NewPCG(1, 0)) // always the same traces: other ones might miss a fault by bad luck
			for n := range 10 * traces {
				if fault, _ := disagreement(t, client, faulty, randomTrace(random)); fault != "" {
					t.Logf("trace %d finds it: %s", n, fault)
					return
				}
			}
			t.Errorf("%d traces do not find it", 10*traces)
		})
	}
}

// disagreement plays a trace on all three, and tells where they differ or break their promise; it counts the
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
		fmt.Fprintf(&text, "%3d %s at %d plan %d of %d\n", i, [...]string{"ask", "ahead", "bypass", "refund"}[s.act],
			s.at-epochOfTraces, s.plan, s.of)
	}
	return text.String()
}

const epochOfTraces = Micros(1_800_000_000_000_000)

func randomPlan(r *rand.Rand, algorithm Algorithm) Plan {
	plan := Plan{Algorithm: algorithm}
	for range 1 + r.IntN(2) {
		per := time.Duration(1+r.IntN(2000)) * time.Millisecond
		if !slices.ContainsFunc(plan.Rules, func(known Rule) bool { return known.Per == per }) {
			plan.Rules = append(plan.Rules, Rule{Max: 1 + r.IntN(5), Per: per})
		}
	}
	if r.IntN(2) == 0 {
		plan.Rules = append(plan.Rules, Rule{
			Max: 1, Per: time.Duration(1+r.IntN(500)) * time.Millisecond, Kind: KindGap,
		})
	}
	if r.IntN(2) == 0 {
		plan.Rules = append(plan.Rules, Rule{
			Max: 1 + r.IntN(6), Per: time.Duration(1+r.IntN(3000)) * time.Millisecond, Kind: KindCap,
		})
	}
	for i, rule := range plan.Rules {
		if algorithm.KeepsLog() && rule.Kind == KindLimit || rule.Kind == KindCap {
			plan.Rules[i] = withReserve(r, rule)
		}
	}
	plan.Head.Priority = r.IntN(priorities + 1)
	return plan
}

// withReserve has a rule keep a part for the urgent, now and then.
func withReserve(r *rand.Rand, rule Rule) Rule {
	for i := range rule.Reserve {
		if left := rule.MaxFor(priorities) - 1; left > 0 && r.IntN(4) == 0 {
			rule.Reserve[i] = int32(1 + r.IntN(left))
		}
	}
	return rule
}

// randomPlans gives one plan, or the deepest of several first, or several that all hold the rules of the deepest
// dormant.
func randomPlans(r *rand.Rand) []Plan {
	algorithm := Algorithm(max(0, r.IntN(len(algorithms)+2)-2)) // rolling more often than each of the others
	plans := []Plan{randomPlan(r, algorithm)}
	if r.IntN(2) == 0 {
		return plans
	}
	for range 1 + r.IntN(2) {
		plan := randomPlan(r, algorithm)
		if per := plans[0].Rules[0].Per; r.IntN(3) == 0 &&
			!slices.ContainsFunc(plan.Rules, func(r Rule) bool { return r.Per == per }) {
			plan.Rules[0].Per = per // the same window, as when a limit is lowered or raised
		}
		plans = append(plans, plan)
	}
	var deepest Plan
	for _, p := range plans {
		most, per := depth(deepest.Dormant, p.CategoryRules())
		deepest.Dormant = []Rule{{Max: most, Per: per}}
		most, per = depth(deepest.Rules, p.CapRules())
		deepest.Rules = []Rule{{Max: max(most, 1), Per: max(per, time.Second), Kind: KindCap}}
	}
	for i := range plans {
		if len(plans[i].CapRules()) == 0 { // what nothing limits is not counted
			plans[i] = withCaps(plans[i], deepest.Rules)
		}
	}
	plans[0] = withCaps(plans[0], deepest.Rules)
	plans[0].Dormant = deepest.Dormant
	if r.IntN(2) == 0 {
		for i := range plans {
			plans[i] = withCaps(plans[i], deepest.Rules)
			plans[i].Dormant = deepest.Dormant
		}
	}
	return plans
}

// withCaps gives the plan with other caps.
func withCaps(p Plan, caps []Rule) Plan {
	p.Rules = slices.Concat(p.CategoryRules(), caps, p.Rules[p.from(KindNamed):])
	return p
}

// withNamedCaps puts named caps into some of the plans. Each cap has the same rules in all, and who asks is on a
// channel that it counts, or not.
func withNamedCaps(r *rand.Rand, plans []Plan) {
	for _, name := range []string{"a", "b"} {
		if r.IntN(3) > 0 {
			continue
		}
		var rules []Rule
		for i := range 1 + r.IntN(2) {
			rules = append(rules, withReserve(r, Rule{
				Max: 1 + r.IntN(4), Per: time.Duration(1+1500*i+r.IntN(1500)) * time.Millisecond,
				Kind: KindNamed, Cap: name,
			}))
		}
		channels := []string{"", "x", "y x:1"}[r.IntN(3)]
		for i := range rules {
			rules[i].Channels = channels
		}
		for i := range plans {
			if r.IntN(4) > 0 {
				plans[i].Rules = append(slices.Clip(plans[i].Rules), rules...)
			}
			plans[i].Head.Channel = []string{"", "x", "x:1", "y", "z"}[r.IntN(5)]
		}
	}
}

// withPeriods has rules of the plans count in periods. All plans have the same boundaries, of which those beyond the
// last are as far away as the rule says.
func withPeriods(r *rand.Rand, plans []Plan) {
	if plans[0].Algorithm != Rolling || r.IntN(3) > 0 {
		return
	}
	var boundaries Boundaries
	for i := range boundaries {
		for at := epochOfTraces; len(boundaries[i]) < 1+r.IntN(8); at += Micros(1+r.IntN(30)) * 100_000 {
			boundaries[i] = append(boundaries[i], at)
		}
	}
	for i := range plans {
		plans[i].Boundaries = boundaries
		plans[i].Rules = slices.Clone(plans[i].Rules)
		for j, rule := range plans[i].Rules {
			if j == 0 && r.IntN(2) == 0 || rule.Kind == KindCap && r.IntN(3) == 0 {
				plans[i].Rules[j].Period = Period(1 + r.IntN(3))
				plans[i].Rules[j].Per = 3500 * time.Millisecond // longer than all
			}
		}
	}
}

// randomClosed gives closed intervals within the time of a trace. Like people's hours they often begin or end when
// something happens: times are rounded, and so are those of the steps.
func randomClosed(r *rand.Rand) Closed {
	var closed Closed
	at := epochOfTraces
	for range r.IntN(4) {
		from := at + Micros(1+r.IntN(30))*100_000
		at = from + Micros(1+r.IntN(20))*100_000
		closed = append(closed, Interval{From: from, Until: at})
	}
	return closed
}

func randomTrace(r *rand.Rand) trace {
	tr := trace{plans: randomPlans(r)}
	withNamedCaps(r, tr.plans)
	withPeriods(r, tr.plans)
	rounded := r.IntN(2) == 0
	for i := range tr.plans {
		if rounded {
			tr.plans[i].Closed = randomClosed(r)
		}
	}
	if r.IntN(100) == 0 {
		tr.flood()
		return tr
	}
	tr.setBack = r.IntN(4) == 0
	now, ahead, plan := epochOfTraces, Micros(0), 0
	refunded := map[int]bool{}
	for i := range 2 + r.IntN(30) {
		s := step{act: act(max(0, r.IntN(5)-1)), of: -1, token: "t" + strconv.Itoa(i)}
		if now += Micros(r.IntN(400_000)); rounded {
			now -= now % 100_000
		}
		if tr.setBack && r.IntN(15) == 0 {
			ahead -= Micros([]int{2_000_000, 20_000_000, 3_600_000_000}[r.IntN(3)])
		}
		if i > 0 && r.IntN(5) == 0 {
			plan = r.IntN(len(tr.plans))
		}
		if s.act == refund {
			if s.of = r.IntN(i + 1); s.of == i || refunded[s.of] { // nobody takes one back twice
				s.act = bypass
			}
			refunded[s.of] = true
		}
		s.plan, s.real, s.at = plan, now, now+ahead
		tr.steps = append(tr.steps, s)
	}
	return tr
}

// flood has more bypasses than a log has room for, of which most are taken back, and then asks.
func (tr *trace) flood() {
	const bypasses, refunds, asks = logRoom + 26, logRoom + 11, 25
	for i := range bypasses + refunds + asks {
		s := step{act: bypass, of: -1, token: "t" + strconv.Itoa(i), at: epochOfTraces + Micros(i)*4_000}
		switch {
		case i >= bypasses+refunds:
			s.act = ask
			s.at += Micros(i-bypasses-refunds) * 100_000
		case i >= bypasses:
			s.act, s.of = refund, 2*bypasses-1-i
		}
		s.real = s.at
		tr.steps = append(tr.steps, s)
	}
}

// playMemory also tells how long a log became at most.
func playMemory(tr trace) (verdicts []verdict, longest int) {
	now := time.Time{}
	memory := NewMemory(func() time.Time { return now })
	verdicts = make([]verdict, len(tr.steps))
	for i, s := range tr.steps {
		now = s.at.Time()
		verdicts[i] = memory.play(s, tr.plans[s.plan], tr, verdicts)
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
		m.charge(q, q.now, s.token)
		return verdict{true, q.now, Cause{Rule: NoRule}}
	case refund:
	}
	token, at := tr.taken(s.of, before)
	return verdict{done: q.removeAdmission(token, at), by: Cause{Rule: NoRule}}
}

// taken gives what a refund names: the admission of a step, or nobody's when it was none, or was taken back before.
func (tr trace) taken(of int, verdicts []verdict) (token string, at Micros) {
	if !verdicts[of].done || tr.steps[of].act == refund {
		return "unknown", 1
	}
	return tr.steps[of].token, verdicts[of].at
}

func playLua(t *testing.T, client *redis.Client, script *redis.Script, tr trace, memory []verdict) []verdict {
	t.Helper()
	args := []any{strconv.Itoa(len(tr.steps))}
	begins := make([]int, len(tr.plans))
	next := 2 + 5*len(tr.steps)
	for i, p := range tr.plans {
		begins[i] = next
		next += p.argCount()
	}
	for _, s := range tr.steps {
		token, back := s.token, "0"
		if s.act == refund {
			name, at := tr.taken(s.of, memory)
			token, back = name, strconv.FormatInt(int64(at), 10)
		}
		args = append(args, strconv.Itoa(int(s.act)), strconv.FormatInt(int64(s.at), 10), token, back,
			strconv.Itoa(begins[s.plan]))
	}
	for _, p := range tr.plans {
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

// againstSpecification compares every result of a rolling plan with Next over all admissions that were ever made and
// not refunded: what a log forgot must not matter. A result may be later only after a flood, when a refund can't bring
// back one by one what was cut off. When the clock was set back, Next over such a history is no measure.
func againstSpecification(tr trace, verdicts []verdict) string {
	if tr.setBack {
		return ""
	}
	var state, limit []Micros
	named := namedLogs{}
	pool, poolPer := tr.plans[0].depth()
	capPool, capPer := depth(tr.plans[0].CapRules())
	for i, s := range tr.steps {
		plan, v := tr.plans[s.plan], verdicts[i]
		if s.act == refund {
			if of := verdicts[s.of]; of.done && tr.steps[s.of].act != refund && v.done {
				state, limit = without(state, of.at), without(limit, of.at)
				named.refund(plan, s.of)
			}
			continue
		}
		// A rule longer than any before, as one of the calendar, begins with what is remembered.
		_, ofCategory := plan.depth()
		_, ofCap := depth(plan.CapRules())
		if ofCategory > poolPer && forgets(state, s.at, poolPer) || ofCap > capPer && forgets(limit, s.at, capPer) {
			return ""
		}
		at, by := Next(s.at, plan.Closed, append([]Log{
			{Rules: plan.CategoryRules(), Admitted: state, Priority: plan.Head.Priority, Boundaries: plan.Boundaries},
			{Rules: plan.CapRules(), Admitted: limit, Priority: plan.Head.Priority, Boundaries: plan.Boundaries},
		}, named.of(plan)...)...)
		if s.act != bypass && (v.at < at || len(tr.steps) < 100 && (v.at != at || !v.done && v.by != by)) {
			return fmt.Sprintf("step %d: the limiter says %+v, Next %d by %+v", i, v, at, by)
		}
		if !v.done {
			continue
		}
		// A log that begins under a plan less deep than the first knows nothing of that one's windows.
		most, per := plan.depth()
		if empty(state, s.at, poolPer) && (most < pool || per < poolPer) {
			return ""
		}
		if most, per = depth(plan.CapRules()); empty(limit, s.at, capPer) && (most < capPool || per < capPer) {
			return ""
		}
		state, limit = insertSorted(state, v.at), insertSorted(limit, v.at)
		named.charge(plan, i, v.at)
	}
	return ""
}

// forgets tells whether a log that remembers for a time may have forgotten some of its admissions.
func forgets(admitted []Micros, now Micros, per time.Duration) bool {
	return len(admitted) > 0 && admitted[0].Add(per) <= now
}

// namedLogs are the admissions that each named cap counts, by the step.
type namedLogs map[string]map[int]Micros

// of gives the logs of a plan's named caps.
func (n namedLogs) of(plan Plan) []Log {
	var logs []Log
	for _, rules := range plan.NamedCaps() {
		log := Log{Rules: rules, Priority: plan.Head.Priority}
		if rules[0].CountsOn(plan.Head.Channel) {
			log.Admitted = slices.Sorted(maps.Values(n[rules[0].Cap]))
		}
		logs = append(logs, log)
	}
	return logs
}

func (n namedLogs) charge(plan Plan, step int, at Micros) {
	for _, rules := range plan.NamedCaps() {
		if name := rules[0].Cap; rules[0].CountsOn(plan.Head.Channel) {
			if n[name] == nil {
				n[name] = map[int]Micros{}
			}
			n[name][step] = at
		}
	}
}

func (n namedLogs) refund(plan Plan, step int) {
	for _, rules := range plan.NamedCaps() {
		delete(n[rules[0].Cap], step)
	}
}

// empty tells whether nothing lies within a window and a key's slack.
func empty(times []Micros, now Micros, per time.Duration) bool {
	return len(times) == 0 || times[len(times)-1].Add(per) <= now
}

func insertSorted(times []Micros, at Micros) []Micros {
	i, _ := slices.BinarySearch(times, at)
	return slices.Insert(times, i, at)
}

func without(times []Micros, at Micros) []Micros {
	if i, found := slices.BinarySearch(times, at); found {
		return slices.Delete(times, i, i+1)
	}
	return times
}

// brokenPromise checks every admission that the rules decided against what the algorithm promises for the window that
// ends with it, on the clock that nobody sets. It counts the admissions that were kept.
func brokenPromise(tr trace, verdicts []verdict) (fault string, kept int) {
	takenBack := map[int]bool{}
	for i, s := range tr.steps {
		if s.act == refund && verdicts[i].done {
			takenBack[s.of] = true
		}
	}
	under := map[Rule][]Micros{} // what was admitted under a rule
	for i, s := range tr.steps {
		v := verdicts[i]
		if s.act == refund || !v.done || takenBack[i] {
			continue
		}
		kept++
		at := v.at - s.at + s.real
		if s.act == bypass && tr.plans[0].Algorithm != Rolling {
			continue // only a log counts them exactly
		}
		for _, rule := range tr.plans[s.plan].Rules {
			if !rule.CountsOn(tr.plans[s.plan].Head.Channel) || rule.Period > 0 && tr.setBack {
				continue
			}
			before, most := under[rule], rule.Max
			if tr.plans[0].Algorithm != Rolling && rule.Kind == KindLimit {
				most = 2 * rule.Max
			}
			if s.act != bypass && len(before) >= most &&
				at < rule.frees(before[len(before)-most], tr.plans[s.plan].Boundaries) {
				return fmt.Sprintf("step %d is the admission after %d within %s: %v", i, most, rule.Per, before), kept
			}
			under[rule] = insertSorted(before, at)
		}
	}
	return "", kept
}
