package throttletest

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

const ms = time.Millisecond

// limitCases are about what is admitted and when. Random traces show more of it, such as many windows at once and parts
// that are kept for the urgent; the check of linearizability has callers ask at once.
func limitCases(f Features) []scenario {
	cases := []scenario{
		{"ExactlyOneWindowLaterItPasses", boundary},
		{"GapBetweenTwo", gapBetween},
		{"CapOverCategories", capOverCategories},
		{"UsersAreIndependent", usersIndependent},
		{"RefusalsAreFree", refusalsAreFree},
		{"TheLongestWindow", longest},
		{"NoRules", noRules},
		{"NamedCapsOverSomeCategories", namedCaps},
		{"NamedCapsOnSomeChannels", capsOnChannels},
		{"ARefundLeavesEveryCap", refundOfCaps},
		{"PeriodsOfTheCalendar", periods},
	}
	if f.exact() {
		return cases // random traces show that no window of any position holds more
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

// namedCaps: each cap counts the categories whose plans have it, and a user's name can't make it another one's.
func namedCaps(p *probe) {
	both := p.plan(limit(10, time.Second), userCap(10, time.Second), namedCap("a", 2, 10*ms, ""),
		namedCap("a", 3, 50*ms, ""), namedCap("b", 9, time.Second, ""))
	one := p.plan(limit(10, time.Second), userCap(10, time.Second), namedCap("b", 3, 20*ms, ""))
	news := throttle.Key{User: "anna", Category: "news"}
	p.pass(anna, both, 2)
	p.refuse(anna, both, 2, epoch.Add(10*ms))
	p.pass(news, one, 1)
	p.refuse(news, one, 2, epoch.Add(20*ms))
	p.at(10 * ms)
	p.pass(anna, both, 1)
	p.refuse(anna, both, 3, epoch.Add(50*ms))
	if used := p.peek(news, one).Rules[2].Used; used != 4 {
		p.Errorf("the cap of both counts %d of 4", used)
	}
	p.pass(throttle.Key{User: "b:anna", Category: "chat"}, both, 2)
	p.pass(throttle.Key{User: "a:anna", Category: "chat"}, both, 2)
	p.edge(anna, both)
}

func capsOnChannels(p *probe) {
	on := func(channel string) throttle.Plan {
		plan := p.plan(limit(20, time.Second), namedCap("push", 2, 10*ms, "apns fcm"))
		plan.Head.Channel = channel
		return plan
	}
	p.pass(anna, on("email"), 3)
	p.pass(anna, on("fcm"), 1)
	p.pass(anna, on("fcm:shop"), 1)
	p.refuse(anna, on("apns"), 1, epoch.Add(10*ms))
	p.refuse(anna, on(""), 1, epoch.Add(10*ms))
	p.pass(anna, on("webpush"), 1)
	if used := p.peek(anna, on("apns")).Rules[1].Used; used != 2 {
		p.Errorf("the cap counts %d, want 2", used)
	}
	p.at(10 * ms)
	p.pass(anna, on(""), 2)
	p.refuse(anna, on("fcm"), 1, epoch.Add(20*ms))
}

// periods: a full period waits for the next, whenever in it the admissions were, and a user who comes late gets all of
// it.
func periods(p *probe) {
	rule := userCap(2, throttle.Day.Longest())
	rule.Period = throttle.Day
	plan := p.plan(limit(20, time.Second), rule)
	plan.Boundaries[throttle.Day-1] = []throttle.Micros{epoch, epoch.Add(10 * ms), epoch.Add(20 * ms)}
	p.at(9 * ms)
	p.pass(anna, plan, 2)
	p.refuse(anna, plan, 1, epoch.Add(10*ms))
	p.at(10 * ms)
	if used := p.peek(anna, plan).Rules[1].Used; used != 0 {
		p.Errorf("a new period counts %d", used)
	}
	p.pass(anna, plan, 1)
	p.at(19 * ms)
	p.pass(anna, plan, 1)
	if u := p.peek(anna, plan).Rules[1]; u.Used != 2 || u.FreesAt != epoch.Add(20*ms) {
		p.Errorf("a full period: %+v", u)
	}
	p.edge(anna, plan)
	p.pass(anna, plan, 1)
	p.refuse(anna, plan, 1, p.now.Add(rule.Per)) // beyond the last boundary it is as long as it can be
}

func refundOfCaps(p *probe) {
	plan := p.plan(limit(5, time.Second), userCap(5, time.Second), namedCap("a", 1, time.Second, ""),
		namedCap("b", 1, time.Second, ""))
	token := p.pass(anna, plan, 1)
	p.refuse(anna, plan, 2, epoch.Add(time.Second))
	p.refund(anna, plan, token, p.now, true)
	for i, u := range p.peek(anna, plan).Rules {
		if u.Used != 0 {
			p.Errorf("after the refund rule %d counts %d", i, u.Used)
		}
	}
	p.pass(anna, plan, 1)
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

func longest(p *probe) {
	plan := p.plan(limit(1, throttle.MaxPer), limit(3000, time.Minute))
	p.pass(anna, plan, 1)
	p.refuse(anna, plan, 0, epoch.Add(throttle.MaxPer))
	p.edge(anna, plan)
	if p.now != epoch.Add(throttle.MaxPer) {
		p.Errorf("passed after %s", p.since(p.now))
	}
}

func noRules(p *probe) {
	p.pass(anna, p.plan(), 5)
	if stored := p.Stored(); len(stored) > 0 {
		p.Errorf("a plan without rules left %v", stored)
	}
}
