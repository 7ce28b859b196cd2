package agenda_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
)

// round is what a process asked, and what the model says of it.
type round struct {
	dispatch.TakeRequest

	want []taking // nil for one whose wake-up is somebody else's by now
	live []bool
	// pulled are the users of new wake-ups, as far as something of them waits, with their categories.
	pulled []pulling
}

type pulling struct {
	user       string
	categories []string
}

// round has a process make a round, or repeat one whose reply was lost.
func (p *program) round() string {
	pr := p.oneOf()
	if r := pr.lost; r != nil {
		if p.rand.IntN(3) > 0 {
			return "" // it takes its time
		}
		pr.lost = nil
		return p.askAgain(pr, r)
	}
	p.rounds++
	r := &round{TakeRequest: dispatch.TakeRequest{
		ID: "r" + strconv.Itoa(p.rounds), Capacity: p.rand.IntN(7), Pull: p.rand.IntN(4),
	}}
	for _, user := range slices.Sorted(maps.Keys(pr.held)) {
		h := pr.held[user]
		switch due := !h.at.After(p.time()); {
		case p.rand.IntN(12) == 0:
			r.Release = append(r.Release, h.Wakeup)
		case due && p.rand.IntN(8) > 0 || p.rand.IntN(20) == 0:
			r.Wakeups = append(r.Wakeups, h.Wakeup)
		}
	}
	return p.ask(pr, r, p.rand.IntN(12) == 0)
}

func (p *program) time() time.Time { return time.UnixMicro(p.model.now) }

// ask makes a round, and compares the reply with the model's, unless the reply is lost.
func (p *program) ask(pr *process, r *round, isLost bool) string {
	p.predict(pr, r)
	reply, err := pr.store.Take(p.ctx, r.TakeRequest)
	p.must(err, "serve")
	what := fmt.Sprintf("%s asks %s for %v, releases %v, pulls %d, room %d: %v", pr.name, r.ID, r.Wakeups, r.Release,
		r.Pull, r.Capacity, briefly(reply))
	if isLost {
		pr.lost, p.deaf = r, true
		return what + " (lost)"
	}
	p.compare(r, reply)
	p.learn(pr, r, reply)
	return what
}

// predict plays the round on the model. Who has which wake-up, and which come, is read from Redis.
func (p *program) predict(pr *process, r *round) {
	room := r.Capacity
	for i, w := range r.Wakeups {
		live := p.snap.agendas[w.UserID].generation == w.Generation && !p.stopped
		r.live = append(r.live, live)
		limit := room / (len(r.Wakeups) - i)
		if room > 0 && limit == 0 {
			limit = 1
		}
		var t taking
		if live {
			t = p.model.take(w.UserID, w.Categories, limit)
		}
		room -= len(t.grants)
		r.want = append(r.want, t)
	}
	if r.Pull == 0 || p.stopped {
		return
	}
	for _, user := range p.snap.first(r.Pull) {
		i := slices.IndexFunc(r.Wakeups, func(w dispatch.Wakeup) bool { return w.UserID == user })
		if i >= 0 && r.live[i] && !r.want[i].more && r.want[i].moment > p.model.now+modelHold {
			continue // a copy of what this round has scheduled
		}
		p.model.counts["pulls"]++
		pr.seen = p.model.now
		delete(p.lost, user)
		if p.model.agenda(user).Waits() {
			r.pulled = append(r.pulled, pulling{user, p.model.agenda(user).Categories()})
		}
	}
}

func briefly(reply dispatch.TakeResult) string {
	var text []string
	for _, t := range reply.Results {
		var ids []string
		for _, g := range t.Grants {
			ids = append(ids, g.Notification.ID)
		}
		text = append(text, fmt.Sprintf("%v held %t after %s", ids, t.Held, t.After))
	}
	return fmt.Sprintf("took %v, pulled %v", text, reply.Pulled)
}

func (p *program) compare(r *round, reply dispatch.TakeResult) {
	for i, w := range r.Wakeups {
		got, want := reply.Results[i], r.want[i]
		if diff := cmp.Diff(want.grants, p.grantings(got.Grants), cmp.AllowUnexported(granting{})); diff != "" {
			p.failf("%s is granted (-want +got):\n%s\n%s", w.UserID, diff, briefly(reply))
		}
		held := r.live[i] && !want.more && want.moment > 0 && want.moment <= p.model.now+modelHold
		if got.Held != held || held && got.After != time.Duration(want.moment-p.model.now)*time.Microsecond {
			p.failf("the wake-up of %s is held %t after %s, want %+v", w.UserID, got.Held, got.After, want)
		}
		if again := r.live[i] && want.more; got.Again != again {
			p.failf("the wake-up of %s comes again at once: %t, want %+v", w.UserID, got.Again, want)
		}
	}
	if got := pullings(reply.Pulled); !slices.EqualFunc(r.pulled, got, func(a, b pulling) bool {
		return a.user == b.user && slices.Equal(a.categories, b.categories)
	}) {
		p.failf("pulled are %v, want %v of %+v; asked %+v", got, r.pulled, p.snap, r.TakeRequest)
	}
}

func (p *program) grantings(grants []*dispatch.Grant) []granting {
	var all []granting
	for _, g := range grants {
		id := g.Notification.ID
		payload := agenda.OnChannel(notification.Channel(p.model.notes[id].Channel)) + strings.TrimPrefix(id, "n")
		if g.Payload != payload {
			id += " with " + g.Payload
		}
		slot := p.model.now + micros(g.SlotIn)
		at := g.AdmittedAt.UnixMicro()
		all = append(all, granting{
			id, at, slot, g.Generation, g.Attempt, g.Failures, g.Deferrals, fmt.Sprint(g.Items, g.Frozen),
		})
	}
	return all
}

func pullings(wakeups []dispatch.Wakeup) []pulling {
	var all []pulling
	for _, w := range wakeups {
		all = append(all, pulling{w.UserID, slices.Sorted(slices.Values(w.Categories))})
	}
	return all
}

// learn has a process know the reply.
func (p *program) learn(pr *process, r *round, reply dispatch.TakeResult) {
	for _, w := range r.Release {
		delete(pr.held, w.UserID)
	}
	for i, w := range r.Wakeups {
		delete(pr.held, w.UserID)
		if taken := reply.Results[i]; taken.Held {
			w.Categories = taken.Categories
			pr.held[w.UserID] = heldWakeup{w, 0, p.time().Add(taken.After)}
		}
		pr.grants = append(pr.grants, reply.Results[i].Grants...)
	}
	for _, w := range reply.Pulled {
		pr.held[w.UserID] = heldWakeup{w, 0, p.time()}
	}
}

// askAgain repeats a round whose reply was lost. If that round granted or pulled anything, the reply is what is left of
// it; otherwise the round is made anew.
func (p *program) askAgain(pr *process, r *round) string {
	gave := len(r.pulled) > 0
	for _, t := range r.want {
		gave = gave || len(t.grants) > 0
	}
	if !gave {
		return p.ask(pr, &round{TakeRequest: r.TakeRequest}, false)
	}
	reply, err := pr.store.Take(p.ctx, r.TakeRequest)
	p.must(err, "serve again")
	for i, w := range r.Wakeups {
		var left []granting
		for _, g := range r.want[i].grants {
			if n := p.model.notes[g.id]; n.Status == notification.StatusSending && n.Generation == g.generation {
				g.slot = g.at // what it was is not kept
				left = append(left, g)
			}
		}
		if diff := cmp.Diff(left, p.grantings(reply.Results[i].Grants), cmp.AllowUnexported(granting{})); diff != "" {
			p.failf("%s is granted, asked again (-want +got):\n%s", w.UserID, diff)
		}
		if held := p.snap.agendas[w.UserID].generation == w.Generation; held != reply.Results[i].Held {
			p.failf("the wake-up of %s is held %t, asked again, want %t", w.UserID, reply.Results[i].Held, held)
		}
	}
	p.learn(pr, r, reply)
	return fmt.Sprintf("%s asks %s again: %s", pr.name, r.ID, briefly(reply))
}

// settle has a process settle one of what it delivers, or one whose lease ended.
func (p *program) settle() string {
	pr := p.oneOf()
	if len(pr.grants) == 0 {
		return ""
	}
	i := p.rand.IntN(len(pr.grants))
	s := settlement{pr.grants[i], p.outcome()}
	pr.grants = slices.Delete(pr.grants, i, i+1)
	pr.settled = append(pr.settled, s)
	return p.write(pr, s)
}

// settleAgain repeats a settlement whose reply was lost.
func (p *program) settleAgain() string {
	pr := p.oneOf()
	if len(pr.settled) == 0 {
		return ""
	}
	return "again: " + p.write(pr, pick(p.rand, pr.settled))
}

func (p *program) write(pr *process, s settlement) string {
	id := s.grant.Notification.ID
	what := fmt.Sprintf("%s settles %s of generation %d: %+v", pr.name, id, s.grant.Generation, s.outcome)
	stale := p.model.settle(id, s.grant.Generation, s.outcome)
	got, err := pr.store.Settle(p.ctx, s.grant, s.outcome)
	p.must(err, "settle")
	if got.Stale != stale {
		p.failf("%s: stale %t, want %t", what, got.Stale, stale)
	}
	return what
}

func (p *program) outcome() dispatch.Outcome {
	wait := time.Duration(1+p.rand.Int64N(4_000_000)) * time.Microsecond
	switch p.rand.IntN(16) {
	case 0:
		return dispatch.Outcome{Disposition: dispatch.Failed, Reason: "permanent"}
	case 1:
		return dispatch.Outcome{Disposition: dispatch.Failed, Reason: "unsent", Refund: true}
	case 2, 3:
		return dispatch.Outcome{Disposition: dispatch.Retry, Reason: "transient", Failure: true, RetryAfter: wait}
	case 4:
		return dispatch.Outcome{Disposition: dispatch.Retry, Reason: "throttled", Behind: true, RetryAfter: wait}
	case 5, 6:
		return dispatch.Outcome{
			Disposition: dispatch.Retry, Reason: "budget", Refund: true, Untried: true, RetryAfter: wait,
		}
	case 7:
		return dispatch.Outcome{Disposition: dispatch.Returned, Reason: "late", Refund: true}
	case 8:
		return dispatch.Outcome{Disposition: dispatch.Returned, Reason: "busy", Refund: true, RetryAfter: wait}
	case 9:
		return dispatch.Outcome{
			Disposition: []dispatch.Disposition{
				dispatch.Expired, dispatch.Cancelled, dispatch.Replaced, dispatch.Forgotten,
			}[p.rand.IntN(4)],
			Reason: "elsewhere", Refund: true,
		}
	case 10:
		return dispatch.Outcome{Disposition: dispatch.Failed, Reason: "gone", Refund: true}
	case 11:
		return dispatch.Outcome{
			Disposition: dispatch.Retry, Reason: "refused", Failure: true, Behind: true, Refund: true,
			RetryAfter: wait,
		}
	}
	return dispatch.Outcome{Disposition: dispatch.Delivered, Reason: "delivered"}
}

// extend has the lease of a delivery begin anew.
func (p *program) extend() string {
	pr := p.oneOf()
	if len(pr.grants) == 0 {
		return ""
	}
	g := pick(p.rand, pr.grants)
	if n := p.model.notes[g.Notification.ID]; n.Status == notification.StatusSending && n.Generation == g.Generation {
		n.Leased = p.model.moment() + modelLease
	}
	p.must(pr.store.Extend(p.ctx, g), "extend")
	return "extend " + g.Notification.ID
}
