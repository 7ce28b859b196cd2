package agenda

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// However many wait in however many backlogs, a timetable takes a bounded number of steps. Then it comes to a moment
// that is not too early, and at most twice as late.
func TestATimetableIsBounded(t *testing.T) {
	t.Parallel()
	rules := []throttle.Rule{{Max: 10, Per: time.Minute}, {Max: 15, Per: time.Minute, Kind: throttle.KindCap}}
	const each, begin = 100_000, throttle.Micros(1_800_000_000_000_000)
	last, caps := &asked{}, &throttle.CapPasts{}
	table := &timetable{begin: begin, now: begin, laterFrom: never}
	for _, category := range []string{"chat", "news"} {
		var cuts []cut
		if category == "chat" {
			cuts = []cut{{standing: standing{place: 3*band - 1, asked: last}, before: each}}
		}
		plan := throttle.Plan{Rules: rules}
		table.tracks = append(table.tracks, &track{
			settings: Settings{Plan: plan}, queue: queueOf([4]int{0, 0, each, 0}, nil, cuts),
			projection: throttle.NewProjection(begin, throttle.Key{User: "ada", Category: category}, plan, nil, caps),
		})
	}
	if err := table.plan(t.Context()); err != nil {
		t.Fatal(err)
	}
	optimum := begin.Add(2 * each / 15 * time.Minute)
	if table.steps > 2*maxSteps || last.at < optimum.Add(-time.Minute) || last.at > optimum.Add(optimum.Sub(begin)) {
		t.Errorf("the last goes after %s, in %d steps", last.at.Sub(begin), table.steps)
	}
}

// manyTracks are backlogs under shared caps, with something that is asked for in each, in random order.
type manyTracks struct {
	plans []throttle.Plan
	order []int // the backlog of each place
	asked []int // the places that are asked for
}

const boundBegin = throttle.Micros(1_800_000_000_000_000)

func randomTracks(r *rand.Rand) manyTracks {
	per := func(most int) time.Duration { return time.Duration(1+r.IntN(most)) * time.Second }
	caps := []throttle.Rule{{Max: 1 + r.IntN(6), Per: per(20), Kind: throttle.KindCap}}
	for range r.IntN(2) {
		caps = append(caps,
			throttle.Rule{Max: 1 + r.IntN(12), Per: per(90), Kind: throttle.KindNamed, Cap: "marketing"})
	}
	var days throttle.Boundaries
	for at := boundBegin; len(days[0]) < 20; at = at.Add(10*time.Second + per(60)) {
		days[0] = append(days[0], at)
	}
	var m manyTracks
	for range 2 + r.IntN(3) {
		plan := throttle.Plan{Algorithm: throttle.Algorithm(max(0, r.IntN(6)-3))}
		if r.IntN(3) > 0 {
			plan.Rules = append(plan.Rules, throttle.Rule{Max: 1 + r.IntN(5), Per: per(60)})
		}
		if r.IntN(3) == 0 {
			plan.Rules = append(plan.Rules, throttle.Rule{Max: 1, Per: per(10), Kind: throttle.KindGap})
		}
		if plan.Algorithm == throttle.Rolling && r.IntN(3) == 0 {
			plan.Rules = append(plan.Rules,
				throttle.Rule{Max: 1 + r.IntN(6), Per: 26 * time.Hour, Period: throttle.Day})
			plan.Boundaries = days
		}
		plan.Rules = append(plan.Rules, caps[:1+r.IntN(len(caps))]...)
		for at := boundBegin; r.IntN(2) == 0 && len(plan.Closed) < 5; {
			from := at.Add(per(90))
			at = from.Add(per(60))
			plan.Closed = append(plan.Closed, throttle.Interval{From: from, Until: at})
		}
		m.plans = append(m.plans, plan)
	}
	for place := range 10 + r.IntN(60) {
		m.order = append(m.order, r.IntN(len(m.plans)))
		if r.IntN(10) == 0 {
			m.asked = append(m.asked, place)
		}
	}
	return m
}

// table makes a timetable of the tracks.
func (m manyTracks) table() (*timetable, []*asked) {
	t := &timetable{begin: boundBegin, now: boundBegin, laterFrom: never}
	caps, all := &throttle.CapPasts{}, []*asked(nil)
	for _, plan := range m.plans {
		key := throttle.Key{User: "ada"}
		t.tracks = append(t.tracks, &track{
			settings: Settings{Plan: plan}, projection: throttle.NewProjection(boundBegin, key, plan, nil, caps),
		})
	}
	for place, i := range m.order {
		s := standing{place: 2*band + int64(place), count: 1}
		if len(m.asked) > len(all) && m.asked[len(all)] == place {
			s.asked, s.count = &asked{}, 0
			all = append(all, s.asked)
		}
		t.tracks[i].queue = append(t.tracks[i].queue, s)
	}
	return t, all
}

// What is told when there is no time for every step is not too early.
func TestABoundIsNotTooEarly(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	compared, sum, bounds := 0, time.Duration(0), time.Duration(0)
	for n := range 1000 {
		m := randomTracks(r)
		exact, asks := m.table()
		if err := exact.plan(t.Context()); err != nil {
			t.Fatal(err)
		}
		bounded, bound := m.table()
		bounded.asks = bounded.asked()
		bounded.bound()
		for i, a := range asks {
			compared++
			sum, bounds = sum+a.at.Sub(boundBegin), bounds+bound[i].at.Sub(boundBegin)
			if bound[i].at < a.at {
				t.Errorf("seed %d, case %d: place %d of %d goes after %s, told is %s", seed, n, m.asked[i], len(m.order),
					a.at.Sub(boundBegin), bound[i].at.Sub(boundBegin))
			}
		}
	}
	if compared < 1000 || sum == 0 {
		t.Errorf("only %d were compared", compared)
	}
	t.Logf("%d compared: the bounds are %.1f times as late", compared, float64(bounds)/float64(sum))
}
