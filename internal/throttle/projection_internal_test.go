package throttle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/test/redistest"
)

// projected is a plan with something admitted under it, of which projections are made.
type projected struct {
	plan    Plan
	key     Key
	memory  *Memory
	now     Micros
	clockAt *time.Time
}

// randomProjected admits something under a random plan, with closed intervals and spread in half of the cases.
func randomProjected(t *testing.T, r *rand.Rand) *projected {
	t.Helper()
	clock := epochOfTraces.Time()
	p := &projected{
		plan: randomPlan(r, Algorithm(max(0, r.IntN(len(algorithms)+2)-2))), now: epochOfTraces, clockAt: &clock,
		key: Key{User: "user" + strconv.Itoa(r.IntN(100)), Category: "chat"},
	}
	p.memory = NewMemory(func() time.Time { return *p.clockAt })
	plans := []Plan{p.plan}
	withNamedCaps(r, plans)
	withPeriods(r, plans)
	p.plan = plans[0].stretched([]int{1, 5, 100}[r.IntN(3)])
	for i := range p.plan.Rules { // some are deep enough to tell a period from a coincidence
		if p.plan.Rules[i].Kind != KindGap && r.IntN(3) == 0 {
			p.plan.Rules[i].Max += r.IntN(30)
		}
	}
	for i := range r.IntN(40) {
		later := p.now + Micros(r.IntN(300_000))
		if r.IntN(3) > 0 {
			later -= later % 100_000
		}
		p.now = max(p.now, later)
		clock = p.now.Time()
		if _, err := p.memory.Allow(t.Context(), p.key, p.plan, "past"+strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	if r.IntN(2) == 0 {
		p.plan.Closed = randomClosed(r)
		for i := range p.plan.Closed {
			p.plan.Closed[i].From += Micros(i) * 40_000_000
			p.plan.Closed[i].Until += Micros(i) * 40_000_000
		}
		p.plan.Spread = time.Duration(r.IntN(3)) * time.Second
	}
	return p
}

// stretched is the plan with longer periods.
func (p Plan) stretched(by int) Plan {
	for i, all := range p.Boundaries {
		p.Boundaries[i] = nil
		for _, at := range all {
			p.Boundaries[i] = append(p.Boundaries[i], epochOfTraces+Micros(by)*(at-epochOfTraces))
		}
	}
	for i, rule := range p.Rules {
		if rule.Period > 0 {
			p.Rules[i].Per *= time.Duration(by)
			p.Rules[i].Max += by - 1
		}
	}
	return p
}

// projection makes one of what the memory limiter remembers.
func (p *projected) projection() *Projection {
	category, caps := &Past{}, &CapPasts{}
	if c := p.memory.cells[stateName(p.key, p.plan.Algorithm)]; c != nil && !c.expired(p.now) {
		*category = Past{cell: *c}
		category.cell.times = append([]Micros(nil), c.times...)
		category.cell.limits = append([]limitCounter(nil), c.limits...)
	}
	for name, c := range p.memory.cells {
		if name.isCap && !c.expired(p.now) {
			caps.log(name.named).times = append([]Micros(nil), c.times...)
		}
	}
	return NewProjection(p.now, p.key, p.plan, category, caps)
}

// play has the memory limiter admit so many, each as soon as it may, and returns when the next may, and why. The
// request for it is made at the moment of the one before.
func (p *projected) play(t *testing.T, places int) (at Micros, by Cause) {
	t.Helper()
	*p.clockAt = p.now.Time()
	for i := 0; ; i++ {
		q := p.memory.newRequest(p.key, p.plan)
		at, by = q.decide()
		if i == places {
			return at, by
		}
		*p.clockAt = at.Time()
		d, err := p.memory.Allow(t.Context(), p.key, p.plan, "n"+strconv.Itoa(i))
		if err != nil || !d.Allowed {
			t.Fatalf("number %d is not admitted at its slot: %+v, %v", i, d, err)
		}
	}
}

// A projection comes to the moment, and the cause, to which the limiter comes step by step.
func TestProjectionAgreesWithTheLimiter(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	steps, places := 0, 0
	for n := range *played / 3 {
		s := randomProjected(t, r)
		place := r.IntN(1 << (1 + r.IntN(11)))
		p := s.projection()
		if planned := p.Advance(place, Asking{Head: s.plan.Head}, maxMicros); planned != place {
			t.Fatalf("seed %d, case %d: planned %d of %d", seed, n, planned, place)
		}
		at, by := p.Next(s.now, Asking{Head: s.plan.Head})
		want, wantBy := s.play(t, place)
		if diff := cmp.Diff(fmt.Sprint(want, wantBy), fmt.Sprint(at, by)); diff != "" {
			t.Fatalf("seed %d, case %d: place %d under %s %v, closed %v (-limiter +projection):\n%s", seed, n, place,
				s.plan.Algorithm, s.plan.Rules, s.plan.For(s.key.User).Closed, diff)
		}
		steps, places = steps+p.steps, places+place
	}
	if steps*2 > places {
		t.Errorf("%d steps for %d places: hardly anything was jumped over", steps, places)
	}
}

// Nothing is planned at or after a moment, and everything before it is.
func TestProjectionStopsInTime(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for n := range 500 {
		s := randomProjected(t, r)
		until := s.now + Micros(r.IntN(60_000_000))
		p := s.projection()
		planned := p.Advance(1000, Asking{Head: s.plan.Head}, until)
		if at, _ := s.play(t, planned); at < until && planned < 1000 {
			t.Fatalf("seed %d, case %d: stopped after %d, the next goes at %d before %d", seed, n, planned, at, until)
		}
		if planned > 0 && p.request.now >= until {
			t.Fatalf("seed %d, case %d: planned one at %d, until %d", seed, n, p.request.now, until)
		}
	}
}

// The hundred-thousandth costs a few hundred steps, whatever the rules are.
func TestDeepPlacesTakeFewSteps(t *testing.T) {
	t.Parallel()
	night := Closed{{epochOfTraces + 3_600_000_000, epochOfTraces + 40_000_000_000}}
	for name, c := range map[string]struct {
		plan Plan
		most int
	}{
		"NoRule":      {most: 1},
		"Gap":         {plan: Plan{Rules: []Rule{{Max: 1, Per: 3 * time.Second, Kind: KindGap}}}, most: 10},
		"ManyRules":   {plan: Plan{Rules: deepRules}, most: 600},
		"Night":       {plan: Plan{Rules: deepRules, Closed: night}, most: 1200},
		"FixedWindow": {plan: Plan{Algorithm: FixedWindow, Rules: deepRules[:1]}, most: 600},
		"TokenBucket": {plan: Plan{Algorithm: TokenBucket, Rules: deepRules[:1]}, most: 600},
		"NamedCaps":   {plan: Plan{Rules: deepCaps}, most: 600},
		"Calendar":    {plan: Plan{Rules: deepPeriods, Boundaries: deepDays}, most: 12_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := NewProjection(epochOfTraces, Key{User: "ada", Category: "chat"}, c.plan, nil, nil)
			if planned := p.Advance(100_000, Asking{}, maxMicros); planned != 100_000 || p.steps > c.most {
				t.Errorf("planned %d in %d steps, may take %d", planned, p.steps, c.most)
			}
		})
	}
}

// deepRules are rules as of a chat room.
var deepRules = []Rule{
	{Max: 10, Per: time.Minute},
	{Max: 1, Per: 3 * time.Second, Kind: KindGap},
	{Max: 100, Per: time.Hour, Kind: KindCap},
}

// deepCaps are the same under two caps with names, one of which counts some channels only.
var deepCaps = append(slices.Clip(deepRules),
	Rule{Max: 200, Per: 3 * time.Hour, Kind: KindNamed, Cap: "marketing"},
	Rule{Max: 5, Per: time.Minute, Kind: KindNamed, Cap: "push", Channels: "fcm apns"})

// deepPeriods are rules of the calendar beside a gap, deepDays the days and months that are known.
var (
	deepPeriods = []Rule{
		{Max: 1, Per: 3 * time.Second, Kind: KindGap},
		{Max: 1000, Per: Day.Longest(), Kind: KindCap, Period: Day},
		{Max: 20_000, Per: Month.Longest(), Kind: KindNamed, Cap: "marketing", Period: Month},
	}
	deepDays = func() (b Boundaries) {
		const day = 86_400_000_000
		for i := range Micros(9) {
			b[Day-1] = append(b[Day-1], epochOfTraces+(i-1)*day+day/3)
			b[Month-1] = append(b[Month-1], epochOfTraces+(i-1)*30*day+day/3)
		}
		return b
	}()
)

// pastScript puts the past of a plan.
var pastScript = redis.NewScript(LogFunctions + PastFunctions + `
local list, plan = {}, read_plan(1, KEYS[1], KEYS[2])
for _, cap in ipairs(plan.named) do cap.key = KEYS[3] end
put_past(list, plan)
return list`)

// What the Lua function puts for a projection is what the limiter remembers.
func TestPastIsRead(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	limiter := NewRedis(client, func(string) string { return "p:" })
	for _, algorithm := range Algorithms() {
		t.Run(algorithm.String(), func(t *testing.T) {
			t.Parallel()
			plan := Plan{Algorithm: algorithm, Rules: []Rule{
				{Max: 3, Per: time.Hour},
				{Max: 5, Per: 2 * time.Hour},
				{Max: 3000, Per: 3 * time.Hour, Kind: KindCap},
				{Max: 4, Per: time.Minute, Kind: KindNamed, Cap: "marketing"},
				{Max: 4000, Per: 3 * time.Hour, Kind: KindNamed, Cap: "marketing"},
			}}
			key := Key{User: "u" + algorithm.String(), Category: "chat"}
			var last Decision
			for i := range 5 {
				d, err := limiter.Spend(t.Context(), key, plan, "t"+strconv.Itoa(i))
				if err != nil {
					t.Fatal(err)
				}
				last = Decision{Now: d.Now}
			}
			reply, err := pastScript.Run(t.Context(), client,
				[]string{plan.StateKey("p:", key), CapKey("p:", key), NamedKey("p:", "marketing", key)},
				plan.Args(nil)...).Slice()
			if err != nil {
				t.Fatal(err)
			}
			numbers := &numberReader{reply: reply}
			category, caps := plan.ReadPast(numbers)
			if numbers.missed || len(numbers.reply) > 0 {
				t.Fatalf("%d of %d fields are left", len(numbers.reply), len(reply))
			}
			at, by := NewProjection(last.Now, key, plan, category, caps).Next(last.Now, Asking{})
			usage, err := limiter.Peek(t.Context(), key, plan)
			if err != nil {
				t.Fatal(err)
			}
			if at != usage.At || by != usage.Cause {
				t.Errorf("next at %d by %+v, the limiter says %d by %+v", at, by, usage.At, usage.Cause)
			}
			cut := &numberReader{reply: reply[:len(reply)-1]}
			if plan.ReadPast(cut); !cut.missed {
				t.Error("a reply that was cut off is read")
			}
		})
	}
}

// numberReader reads a reply that has nothing but numbers.
type numberReader struct {
	reply  []any
	missed bool
}

// Number implements Numbers.
func (r *numberReader) Number() int64 {
	if len(r.reply) == 0 {
		r.missed = true
		return 0
	}
	n, ok := r.reply[0].(int64)
	r.reply, r.missed = r.reply[1:], r.missed || !ok
	return n
}

// Count implements Numbers.
func (r *numberReader) Count() int {
	n := int(r.Number())
	if n < 0 || n > len(r.reply) {
		r.missed = true
		return 0
	}
	return n
}
