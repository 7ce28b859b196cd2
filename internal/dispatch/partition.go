package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// wakeupsAtOnce is how many wake-ups one round asks for at most, and how many it pulls.
	wakeupsAtOnce = 32
	// releaseAtOnce is how many wake-ups one round gives back at most.
	releaseAtOnce = 100
	// roundTimeout is how long a round is asked again at most. Then the store has repaired what it did.
	roundTimeout = 30 * time.Second
	// firstRoundPause and longestRoundPause lie between tries to ask a round.
	firstRoundPause, longestRoundPause = 50 * time.Millisecond, 250 * time.Millisecond
)

// partition is one partition as this process serves it: one round at a time.
type partition struct {
	*Dispatcher
	number int
	hand   hand
	tokens int  // of the room, for the next round
	more   bool // more may stand in the queue
}

// answer to a round.
type answer struct {
	Reply
	// askedAt is when it was asked for first: the store has decided since then.
	askedAt, answeredAt time.Time
}

// round asks for the wake-ups that are due, as far as there are tokens, pulls so many more, and has each delivery that is
// granted started, in order. Whoever is given a grant has its token too.
func (p *partition) round(ctx context.Context, pull int, start func(*Grant)) error {
	due := p.hand.take(time.Now(), min(wakeupsAtOnce, p.tokens))
	if len(due) == 0 && pull == 0 {
		return nil
	}
	r := Round{Partition: p.number, ID: p.roundID(), Room: p.tokens, Pull: pull}
	for _, h := range due {
		r.Wakeups = append(r.Wakeups, h.Wakeup)
	}
	// Without an answer other partitions have a better use for the room.
	a, err := p.ask(ctx, r, p.freeTokens)
	if errors.Is(err, ErrLost) {
		p.hand.forget()
	}
	if err != nil {
		return err
	}
	grants := p.absorb(r, due, a) //nolint:contextcheck // what is put aside outlives the round
	for _, g := range grants {
		if p.tokens > 0 {
			p.tokens--
		} else {
			p.room <- struct{}{}
		}
		start(g)
	}
	return nil
}

// freeTokens gives all tokens back.
func (p *partition) freeTokens() {
	p.room.giveBack(p.tokens)
	p.tokens = 0
}

// absorb takes over what a round brought, and gives the grants in order.
func (p *partition) absorb(r Round, due []held, a answer) []*Grant {
	var grants []*Grant
	again := false
	take := func(h held, taken Taken) {
		again = again || taken.Again
		for n, g := range taken.Grants {
			g.AskedAt, g.AnsweredAt = a.askedAt, a.answeredAt
			if n == 0 || g.StartIn == 0 { // what may go later than others of its user did not wait for that slot
				g.Slot = h.slot
			}
			grants = append(grants, g)
		}
		if taken.Held {
			p.holdAgain(h, taken, a.answeredAt)
		}
	}
	for i, taken := range a.Taken {
		take(due[i], taken)
	}
	for _, b := range a.Begun {
		take(held{Wakeup: b.Wakeup}, b.Taken)
	}
	for _, w := range a.Pulled {
		p.hand.put(w, a.answeredAt, time.Time{})
	}
	for _, t := range a.Foreign {
		p.chores.Go(func() { p.putAside(p.number, t) })
	}
	if r.Pull > 0 {
		p.more = a.Came+len(a.Foreign) >= r.Pull
	}
	if again || len(grants) > 0 && len(grants) >= r.Room {
		p.more = true // what had more than there was room for stands in the queue again
	}
	if n := a.Came + len(a.Foreign); n > 0 {
		p.cfg.Observer.Pulled(n)
	}
	return grants
}

// holdAgain keeps a wake-up until it has to be asked for again.
func (p *partition) holdAgain(h held, t Taken, answeredAt time.Time) {
	slot := answeredAt.Add(max(0, t.After))
	if t.After <= 0 && len(t.Grants) == 0 && !h.slot.IsZero() {
		slot = h.slot // there was no room: it still waits for the same moment
	}
	at := answeredAt.Add(t.After)
	if t.Rule != "" {
		at = at.Add(-p.cfg.Early)
	}
	p.hand.put(Wakeup{UserID: h.UserID, Generation: h.Generation, Categories: t.Categories}, at, slot)
}

// release gives wake-ups back to the queue, so that another process can serve them.
func (p *partition) release(ctx context.Context, wakeups []Wakeup) {
	for part := range slices.Chunk(wakeups, releaseAtOnce) {
		r := Round{Partition: p.number, ID: p.roundID(), Release: part}
		if _, err := p.ask(ctx, r, p.freeTokens); err != nil {
			return // it has been told; the store replaces them
		}
	}
}

// ask puts a round to the store until that answers: a question whose answer was lost has the same answer again. failed is
// called when it fails for the first time.
func (d *Dispatcher) ask(ctx context.Context, r Round, failed func()) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	first := time.Now()
	for pause := firstRoundPause; ; pause = min(2*pause, longestRoundPause) {
		start := time.Now()
		reply, err := d.serve(ctx, r)
		end := time.Now()
		if err == nil {
			if len(r.Wakeups) > 0 {
				d.cfg.Observer.Decided(end.Sub(start))
			}
			return answer{reply, first, end}, nil
		}
		if errors.Is(err, ErrLost) {
			return answer{}, err
		}
		if pause == firstRoundPause {
			failed()
			d.cfg.Log.WarnContext(ctx, "could not ask the store for wake-ups; it is asked again", "partition", r.Partition, "error", err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			d.cfg.Log.WarnContext(ctx, "the store did not answer in time; the wake-ups that it was asked for are replaced",
				"partition", r.Partition, "asked", len(r.Wakeups), "released", len(r.Release), "error", err)
			return answer{}, err
		}
	}
}

// serve asks once. A panic is an error, and so is an answer that does not fit.
func (d *Dispatcher) serve(ctx context.Context, r Round) (reply Reply, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the store panicked: %v", p)
		}
	}()
	reply, err = d.store.Serve(ctx, r)
	if err == nil && len(reply.Taken) != len(r.Wakeups) {
		err = fmt.Errorf("the store was asked for %d wake-ups and answered for %d", len(r.Wakeups), len(reply.Taken))
	}
	return reply, err
}
