package throttletest

import (
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// tokenCases are about repeated requests and refunds.
func tokenCases() []scenario {
	return []scenario{
		{"AskedTwiceCountsOnce", askedTwice},
		{"ARefusedTokenMayPassLater", refusedToken},
		{"AskedAgainWhileTheCapRemembers", askedAgainWithCap},
		{"TokensOfOneToSixtyTwoBytes", tokenLengths},
		{"RefundOfWhatIsAbsent", refundAbsent},
		{"RefundOfAnOlderOne", refundOlder},
		{"RefundGivesTheCapBack", refundCap},
		{"Clear", clearForgets},
	}
}

func askedTwice(p *probe) {
	plan := p.plan(limit(2, 10*ms), gap(ms), userCap(5, 10*ms))
	first := p.pass(anna, plan, 1)
	want := p.ask(anna, plan, first)
	p.at(500 * time.Microsecond)
	for range 3 {
		d := p.ask(anna, plan, first)
		if !d.Allowed || d.At != want.At {
			p.Fatalf("asked again the decision is %+v, was %+v", d, want)
		}
	}
	if used := p.peek(anna, plan).Rules[0].Used; used != 1 {
		p.Errorf("%d are counted", used)
	}
	p.at(ms)
	p.pass(anna, plan, 1)
	p.refused(anna, plan)
	if d := p.ask(anna, plan, first); !d.Allowed || d.At != want.At {
		p.Errorf("asked again in a full window the decision is %+v, was %+v", d, want)
	}
	if usage := p.peek(anna, plan); usage.Rules[2].Used != 2 {
		p.Errorf("the cap counts %d", usage.Rules[2].Used)
	}
}

func refusedToken(p *probe) {
	plan := p.plan(limit(1, 10*ms))
	p.pass(anna, plan, 1)
	if d := p.ask(anna, plan, "later"); d.Allowed {
		p.Fatalf("%+v", d)
	}
	p.at(10 * ms)
	if d := p.ask(anna, plan, "later"); !d.Allowed || d.At != p.now {
		p.Errorf("%+v", d)
	}
}

// askedAgainWithCap: the category has forgotten the token, the cap has not. A second admission under the same token
// would move the first one.
func askedAgainWithCap(p *probe) {
	plan := p.plan(limit(1, 10*ms), userCap(10, time.Second))
	first := p.pass(anna, plan, 1)
	p.at(10 * ms)
	p.pass(anna, plan, 1)
	p.at(20 * ms)
	if d := p.ask(anna, plan, first); !d.Allowed || d.At != epoch {
		p.Errorf("asked again the decision is %+v, was at %d", d, epoch)
	}
	if used := p.peek(anna, plan).Rules[1].Used; used != 2 {
		p.Errorf("the cap counts %d, want 2", used)
	}
}

func tokenLengths(p *probe) {
	plan := p.plan(limit(2, 10*ms))
	for _, token := range []string{"", strings.Repeat("x", throttle.MaxToken+1)} {
		if d, err := p.Limiter.Allow(p.Context(), anna, plan, token); err == nil {
			p.Errorf("a token of %d bytes: %+v", len(token), d)
		}
		if u, err := p.Limiter.Spend(p.Context(), anna, plan, token); err == nil {
			p.Errorf("a token of %d bytes: %+v", len(token), u)
		}
		if _, err := p.Limiter.Refund(p.Context(), anna, plan, token, epoch); err == nil {
			p.Errorf("refund of a token of %d bytes", len(token))
		}
	}
	for _, token := range []string{"1", strings.Repeat("\xff", throttle.MaxToken)} {
		for range 2 {
			if d := p.ask(anna, plan, token); !d.Allowed {
				p.Errorf("a token of %d bytes: %+v", len(token), d)
			}
		}
	}
	p.refused(anna, plan)
}

func refundAbsent(p *probe) {
	plan := p.plan(limit(2, 10*ms), gap(ms), userCap(2, 10*ms))
	p.refund(anna, plan, "unknown", p.now, false)
	if stored := p.Stored(); len(stored) > 0 {
		p.Errorf("a refund of nothing left %v", stored)
	}
	p.pass(anna, plan, 1)
	p.at(ms)
	last := p.pass(anna, plan, 1)
	p.refund(anna, plan, "unknown", p.now, false)
	p.refund(throttle.Key{User: "bert", Category: "chat"}, plan, last, p.now, false)
	p.refused(anna, plan)
	p.refund(anna, plan, last, p.now, true)
	p.refund(anna, plan, last, p.now, false)
	if used := p.peek(anna, plan).Rules[0].Used; used != 1 {
		p.Errorf("%d are counted after two refunds of one admission", used)
	}
	p.pass(anna, plan, 1)
	p.refused(anna, plan)
}

// refundOlder: a log finds every admission; counters know their latest only, and must not believe the rest.
func refundOlder(p *probe) {
	plan := p.plan(limit(3, 10*ms))
	first := p.pass(anna, plan, 1)
	p.at(time.Microsecond)
	p.pass(anna, plan, 2)
	p.refund(anna, plan, first, epoch, p.exact())
	if !p.exact() {
		p.refused(anna, plan)
		return
	}
	p.pass(anna, plan, 1)
	p.refuse(anna, plan, 0, epoch.Add(10*ms+time.Microsecond))
}

func refundCap(p *probe) {
	plan := p.plan(limit(3, 10*ms), userCap(4, 10*ms))
	mail := throttle.Key{User: "anna", Category: "mail"}
	first := p.pass(anna, plan, 1)
	p.pass(anna, plan, 2)
	p.pass(mail, plan, 1)
	p.refuse(mail, plan, 1, epoch.Add(10*ms))
	p.refund(anna, plan, first, epoch, true) // The cap knows it, so counters believe it too.
	p.refund(anna, plan, first, epoch, false)
	if usage := p.peek(anna, plan); usage.Rules[0].Used != 2 || usage.Rules[1].Used != 3 {
		p.Errorf("after the refund %+v are used", usage.Rules)
	}
	p.pass(mail, plan, 1)
	p.refuse(mail, plan, 1, epoch.Add(10*ms))
}

func clearForgets(p *probe) {
	plan := p.plan(limit(2, time.Second), gap(ms), userCap(4, time.Second))
	mail, bert := throttle.Key{User: "anna", Category: "mail"}, throttle.Key{User: "bert", Category: "chat"}
	for i := range 2 {
		p.at(time.Duration(i) * ms)
		for _, key := range []throttle.Key{anna, mail, bert} {
			p.pass(key, plan, 1)
		}
	}
	p.refused(anna, plan)
	if err := p.Limiter.Clear(p.Context(), anna); err != nil {
		p.Fatal(err)
	}
	if used := p.peek(anna, plan).Rules[2].Used; used != 0 {
		p.Errorf("the cap still counts %d", used)
	}
	p.pass(anna, plan, 1)
	p.at(2 * ms)
	p.pass(anna, plan, 1)
	p.refused(anna, plan)
	p.refused(mail, plan)
	p.refused(bert, plan)
	if err := p.Limiter.Clear(p.Context(), throttle.Key{User: "nobody"}); err != nil {
		p.Error(err)
	}
}
