package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// takeBatch is how many wake-ups one round asks for at most, and how many it pulls at most.
	takeBatch = 32
	// releaseBatch is how many wake-ups one round releases at most.
	releaseBatch = 100
	// roundTimeout bounds the tries of a round. By then the store has repaired what the round did.
	roundTimeout = 30 * time.Second
	// firstRoundPause and longestRoundPause bound the pause between tries of a round.
	firstRoundPause, longestRoundPause = 50 * time.Millisecond, 250 * time.Millisecond
)

// partition is one partition as this process serves it: one round at a time.
type partition struct {
	*Dispatcher
	number int
	held   heldWakeups
	tokens int  // of the capacity, for the next round
	more   bool // more may stand in the queue
}

// answer to a round.
type answer struct {
	Reply
	// askedAt is when it was asked for first: the store has decided since then.
	askedAt, answeredAt time.Time
}

// round asks for as many of the due wake-ups as it has tokens, and pulls so many more. It calls start with each grant, in order;
// with the grant, its delivery gets a token.
func (p *partition) round(ctx context.Context, pull int, start func(*Grant)) error {
	due := p.held.pop(time.Now(), min(takeBatch, p.tokens))
	if len(due) == 0 && pull == 0 {
		return nil
	}
	r := Round{Partition: p.number, ID: p.roundID(), Room: p.tokens, Pull: pull}
	for _, h := range due {
		r.Wakeups = append(r.Wakeups, h.Wakeup)
	}
	// While the store does not answer, other partitions can use the tokens.
	a, err := p.ask(ctx, r, p.returnTokens)
	if errors.Is(err, ErrLost) {
		p.held.clear()
	}
	if err != nil {
		return err
	}
	grants := p.absorb(r, due, a) //nolint:contextcheck // archiving a foreign task outlives the round
	for _, g := range grants {
		if p.tokens > 0 {
			p.tokens--
		} else { // they were returned meanwhile
			p.capacity <- struct{}{}
		}
		start(g)
	}
	return nil
}

// returnTokens returns all tokens.
func (p *partition) returnTokens() {
	p.capacity.release(p.tokens)
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
			if n == 0 || g.StartIn == 0 { // one that goes after others of its user did not wait for this slot
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
		p.held.add(w, a.answeredAt, time.Time{})
	}
	for _, t := range a.Foreign {
		p.archiving.Go(func() { p.archiveForeign(p.number, t) })
	}
	if r.Pull > 0 {
		p.more = a.Came+len(a.Foreign) >= r.Pull
	}
	if again || len(grants) > 0 && len(grants) >= r.Room {
		p.more = true // a wake-up with more notifications than there were tokens is in the queue again
	}
	if n := a.Came + len(a.Foreign); n > 0 {
		p.cfg.Observer.Pulled(n)
	}
	return grants
}

// holdAgain holds a wake-up until it is due again.
func (p *partition) holdAgain(h held, t Taken, answeredAt time.Time) {
	slot := answeredAt.Add(max(0, t.After))
	if t.After <= 0 && len(t.Grants) == 0 && !h.slot.IsZero() {
		slot = h.slot // there was no token for it: it still waits for the same moment
	}
	at := answeredAt.Add(t.After)
	if t.Rule != "" {
		at = at.Add(-p.cfg.Early)
	}
	p.held.add(Wakeup{UserID: h.UserID, Generation: h.Generation, Categories: t.Categories}, at, slot)
}

// release returns wake-ups to the queue, so that another process can serve them.
func (p *partition) release(ctx context.Context, wakeups []Wakeup) {
	for part := range slices.Chunk(wakeups, releaseBatch) {
		r := Round{Partition: p.number, ID: p.roundID(), Release: part}
		if _, err := p.ask(ctx, r, p.returnTokens); err != nil {
			return // ask has logged it; the store replaces the wake-ups
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
			d.cfg.Log.WarnContext(ctx, "could not take from the store; retrying", "partition", r.Partition, "error", err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			d.cfg.Log.WarnContext(ctx, "the store did not answer in time; it will replace the wake-ups of this round",
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
		err = fmt.Errorf("the store answered for %[2]d of %[1]d wake-ups", len(r.Wakeups), len(reply.Taken))
	}
	return reply, err
}
