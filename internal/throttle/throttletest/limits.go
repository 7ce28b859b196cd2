package throttletest

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

const ms = time.Millisecond

// limitCases are about what is admitted and when.
func limitCases(f Features) []scenario {
	cases := []scenario{
		{"ExactlyOneWindowLaterItPasses", boundary},
		{"AFullWindowComesBackWhole", wholeWindow},
		{"GapBetweenTwo", gapBetween},
		{"SeveralWindowsAllOrNone", allOrNone},
		{"CapOverCategories", capOverCategories},
		{"RefusalByTheCategoryLeavesTheCap", capUncharged},
		{"UsersAreIndependent", usersIndependent},
		{"RefusalsAreFree", refusalsAreFree},
		{"WindowsOfOneMillisecond", subSecond},
		{"TheLongestWindow", longest},
		{"AroundTheHundredAndTwentyNinth", manyEntries},
		{"SeveralInOneMicrosecond", sameMicrosecond},
		{"ManyCallersAtOnce", manyCallers},
		{"NoRules", noRules},
	}
	if f.exact() {
		return append(cases, scenario{"NeverMoreInAnyWindow", neverMore})
	}
	return append(cases, scenario{"AtMostTwiceLessOneInAnyWindow", twiceLessOne})
}

func boundary(p *probe) {
	plan := p.plan(limit(2, 10*ms))
	p.pass(anna, plan, 1)
	p.at(1 * ms)
	p.pass(anna, plan, 1)
	free := epoch.Add(10 * ms)
	if p.Algorithm == throttle.TokenBucket {
		free = epoch.Add(5 * ms)
	}
	p.refuse(anna, plan, 0, free)
	p.edge(anna, plan)
	if p.now != free {
		p.Errorf("passed at %s", p.since(p.now))
	}
}

func wholeWindow(p *probe) {
	plan := p.plan(limit(3, 10*ms))
	for round := range 4 {
		start := time.Duration(round) * 10 * ms
		p.at(start)
		p.pass(anna, plan, 3)
		p.refused(anna, plan)
		p.at(start + time.Microsecond)
		p.refused(anna, plan)
		if p.Algorithm != throttle.TokenBucket {
			p.at(start + 10*ms - time.Microsecond)
			p.refuse(anna, plan, 0, epoch.Add(start+10*ms))
		}
	}
}

func gapBetween(p *probe) {
	plan := p.plan(limit(4, 10*ms), gap(2*ms))
	p.pass(anna, plan, 1)
	p.refuse(anna, plan, 1, epoch.Add(2*ms))
	p.at(1 * ms)
	p.refuse(anna, plan, 1, epoch.Add(2*ms))
	p.edge(anna, plan)
	for _, d := range []time.Duration{4 * ms, 6 * ms} {
		p.at(d)
		p.pass(anna, plan, 1)
	}
	if p.Algorithm != throttle.TokenBucket {
		p.refuse(anna, plan, 0, epoch.Add(10*ms))
	}
	alone := p.plan(gap(5 * ms))
	other := throttle.Key{User: "anna", Category: "alone"}
	p.pass(other, alone, 1)
	p.refuse(other, alone, 0, p.now.Add(5*ms))
	p.edge(other, alone)
}

// allOrNone: what one window refuses the other must not count, or it would soon be shut by refusals alone.
func allOrNone(p *probe) {
	plan := p.plan(limit(1, 10*ms), limit(5, time.Second))
	for d := time.Duration(0); d <= 40*ms; d += ms {
		p.at(d)
		if d%(10*ms) == 0 {
			p.pass(anna, plan, 1)
		} else if got := p.refused(anna, plan); got.Rule != 0 {
			p.Fatalf("at %s refused by rule %d", d, got.Rule)
		}
	}
	p.at(50 * ms)
	if got := p.refused(anna, plan); got.Rule != 1 {
		p.Errorf("refused by rule %d, want the longer window", got.Rule)
	}
	if used := p.peek(anna, plan).Rules[1].Used; used != 5 {
		p.Errorf("the longer window counts %d, want the 5 admitted", used)
	}
}

func capOverCategories(p *probe) {
	plan := p.plan(limit(10, time.Second), userCap(3, time.Second))
	for i := range 3 {
		p.at(time.Duration(i) * ms)
		p.pass(throttle.Key{User: "anna", Category: strconv.Itoa(i % 2)}, plan, 1)
	}
	for i := range 3 {
		category := throttle.Key{User: "anna", Category: strconv.Itoa(i)}
		p.refuse(category, plan, 1, epoch.Add(time.Second))
		if used := p.peek(category, plan).Rules[0].Used; used != []int{2, 1, 0}[i] {
			p.Errorf("category %d counts %d after refusals by the cap", i, used)
		}
	}
	p.pass(throttle.Key{User: "bert", Category: "0"}, plan, 3)
	p.edge(throttle.Key{User: "anna", Category: "2"}, plan)
	p.refuse(throttle.Key{User: "anna", Category: "2"}, plan, 1, epoch.Add(time.Second+ms))
}

func capUncharged(p *probe) {
	plan := p.plan(limit(1, time.Second), userCap(2, time.Second))
	p.pass(anna, plan, 1)
	for range 20 {
		p.refuse(anna, plan, 0, epoch.Add(time.Second))
	}
	p.pass(throttle.Key{User: "anna", Category: "mail"}, plan, 1)
	p.refuse(throttle.Key{User: "anna", Category: "news"}, plan, 1, epoch.Add(time.Second))
}

func usersIndependent(p *probe) {
	plan := p.plan(limit(1, 10*ms), userCap(1, 20*ms))
	keys := []throttle.Key{
		anna,
		{User: "bert", Category: "chat"},
		{User: "", Category: ""},
		{User: "b:c", Category: "a"},
		{User: "c", Category: "a:b"},
		{User: "b", Category: "a%3Ab"},
		{User: "ü\u2028{}", Category: "{x}"},
	}
	for i, key := range keys {
		p.at(time.Duration(i) * ms)
		p.pass(key, plan, 1)
	}
	for i, key := range keys {
		p.refuse(key, plan, 1, epoch.Add(time.Duration(i)*ms+20*ms))
	}
	for i, key := range keys {
		p.at(time.Duration(i)*ms + 20*ms)
		p.pass(key, plan, 1)
	}
}

// refusalsAreFree asks in vain, many times and from several callers, and then wants everything as it was.
func refusalsAreFree(p *probe) {
	plan := p.plan(limit(5, time.Second), gap(50*ms), userCap(20, time.Minute))
	for i := range 5 {
		p.at(time.Duration(i) * 50 * ms)
		p.pass(anna, plan, 1)
	}
	p.at(205 * ms)
	free := p.refused(anna, plan).At
	before, stored := fmt.Sprint(p.peek(anna, plan)), fmt.Sprint(p.Stored())

	const callers = 64
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := range p.Refusals / callers {
				d, err := p.Limiter.Allow(p.Context(), anna, plan, fmt.Sprint(caller, "-", i))
				if err != nil || d.Allowed || d.At != free {
					p.Errorf("caller %d, attempt %d: %+v, %v", caller, i, d, err)
					return
				}
			}
		})
	}
	all.Wait()

	if after := fmt.Sprint(p.peek(anna, plan)); after != before {
		p.Errorf("after %d refusals the usage is\n%s, was\n%s", p.Refusals, after, before)
	}
	if after := fmt.Sprint(p.Stored()); after != stored {
		p.Errorf("after %d refusals the state is\n%s, was\n%s", p.Refusals, after, stored)
	}
	p.setNow(free)
	p.pass(anna, plan, 1)
}

func subSecond(p *probe) {
	plan := p.plan(limit(1, ms))
	for i := range 20 {
		p.at(time.Duration(i) * ms)
		p.pass(anna, plan, 1)
		p.refuse(anna, plan, 0, p.now.Add(ms))
		p.at(time.Duration(i)*ms + ms - time.Microsecond)
		p.refuse(anna, plan, 0, p.now.Add(time.Microsecond))
	}
}

func longest(p *probe) {
	plan := p.plan(limit(1, throttle.MaxPer), limit(3000, time.Minute))
	p.pass(anna, plan, 1)
	p.refuse(anna, plan, 0, epoch.Add(throttle.MaxPer))
	p.edge(anna, plan)
	if p.now != epoch.Add(throttle.MaxPer) {
		p.Errorf("passed after %s", p.since(p.now))
	}
}

// manyEntries crosses the size at which Redis changes how it keeps a sorted set.
func manyEntries(p *probe) {
	const n = 130
	plan := p.plan(limit(n, time.Second))
	for i := range n {
		p.at(time.Duration(i) * time.Microsecond)
		p.pass(anna, plan, 1)
	}
	for range 5 {
		p.edge(anna, plan)
		if !p.exact() {
			return
		}
	}
	if want := epoch.Add(time.Second + 4*time.Microsecond); p.now != want {
		p.Errorf("the window slid to %s, want %s", p.since(p.now), p.since(want))
	}
	for _, s := range p.Stored() {
		if s.Entries > n {
			p.Errorf("%s holds %d entries, want at most %d", s.Name, s.Entries, n)
		}
	}
}

func sameMicrosecond(p *probe) {
	plan := p.plan(limit(5, 10*ms), userCap(6, 10*ms))
	p.pass(anna, plan, 5)
	p.refused(anna, plan)
	p.pass(throttle.Key{User: "anna", Category: "mail"}, plan, 1)
	p.refuse(throttle.Key{User: "anna", Category: "mail"}, plan, 1, epoch.Add(10*ms))
}

func manyCallers(p *probe) {
	plan := p.plan(limit(10, time.Second), userCap(12, time.Second))
	var admitted [2]int
	var mu sync.Mutex
	var all sync.WaitGroup
	for caller := range 32 {
		key := throttle.Key{User: "anna", Category: strconv.Itoa(caller % 2)}
		all.Go(func() {
			for i := range 4 {
				d, err := p.Limiter.Allow(p.Context(), key, plan, fmt.Sprint(caller, "-", i))
				if err != nil {
					p.Errorf("caller %d: %v", caller, err)
				}
				if d.Allowed {
					mu.Lock()
					admitted[caller%2]++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	if admitted[0] > 10 || admitted[1] > 10 || admitted[0]+admitted[1] != 12 {
		p.Errorf("admitted %v of two categories, want 12 in all and at most 10 of one", admitted)
	}
}

func noRules(p *probe) {
	p.pass(anna, p.plan(), 5)
	if stored := p.Stored(); len(stored) > 0 {
		p.Errorf("a plan without rules left %v", stored)
	}
}
