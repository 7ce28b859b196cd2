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
	turn   *turn // the last one; a round uses its tokens
	more   bool  // more may stand in the queue
}

// result is that of a round.
type result struct {
	TakeResult
	// askedAt is when the request was sent for the first time; the store has decided since.
	askedAt, repliedAt time.Time
}

// round asks for as many of the due wake-ups as it has tokens, and pulls so many more. It calls start with each grant,
// in order; with the grant, its delivery gets a token.
func (p *partition) round(ctx context.Context, pull int, start func(*Grant)) error {
	due := p.held.pop(time.Now(), min(takeBatch, p.turn.tokens))
	if len(due) == 0 && pull == 0 {
		return nil
	}
	r := TakeRequest{Partition: p.number, ID: p.roundID(), Wakeups: due, Capacity: p.turn.tokens, Pull: pull}
	// While the store does not respond, other partitions can use the tokens.
	taken, err := p.take(ctx, r, p.endTurn)
	if errors.Is(err, ErrLost) {
		p.held.clear()
	}
	if err != nil {
		return err
	}
	grants := p.apply(r, taken) //nolint:contextcheck // archiving a foreign task outlives the round
	for _, g := range grants {
		if p.turn.tokens == 0 { // they were returned meanwhile
			p.turn = p.capacity.forTokens(1)
			<-p.turn.granted
		}
		p.turn.tokens--
		start(g)
	}
	return nil
}

// endTurn returns what is left of the turn, if there is one.
func (p *partition) endTurn() {
	if p.turn != nil {
		p.capacity.end(p.turn)
	}
}

// apply holds, starts and archives what a round brought, and returns its grants in order.
func (p *partition) apply(r TakeRequest, taken result) []*Grant {
	var grants []*Grant
	again := false
	for i, w := range taken.Results {
		again = again || w.Again
		grants = append(grants, p.applyWakeup(r.Wakeups[i], w, taken)...)
	}
	for _, w := range taken.Served {
		again = again || w.Again
		grants = append(grants, p.applyWakeup(w.Wakeup, w.WakeupResult, taken)...)
	}
	for _, w := range taken.Pulled {
		p.held.add(w, taken.repliedAt)
	}
	for _, t := range taken.Foreign {
		p.archiving.Go(func() { p.archiveForeign(p.number, t) })
	}
	pulled := taken.PulledCount + len(taken.Foreign)
	if r.Pull > 0 {
		p.more = pulled >= r.Pull
	}
	if again || len(grants) > 0 && len(grants) >= r.Capacity {
		p.more = true // a wake-up with more notifications than there were tokens is in the queue again
	}
	if pulled > 0 {
		p.cfg.Observer.Pulled(pulled)
	}
	return grants
}

// applyWakeup holds a wake-up again if it is to be held, and completes its grants.
func (p *partition) applyWakeup(h Wakeup, w WakeupResult, taken result) []*Grant {
	for _, g := range w.Grants {
		g.AskedAt, g.RepliedAt = taken.askedAt, taken.repliedAt
	}
	if w.Held {
		at := taken.repliedAt.Add(w.After)
		if w.Rule != "" {
			at = at.Add(-p.cfg.Early)
		}
		p.held.add(Wakeup{UserID: h.UserID, Generation: h.Generation, Categories: w.Categories}, at)
	}
	return w.Grants
}

// release returns wake-ups to the queue, so that another process can serve them.
func (p *partition) release(ctx context.Context, wakeups []Wakeup) {
	for part := range slices.Chunk(wakeups, releaseBatch) {
		r := TakeRequest{Partition: p.number, ID: p.roundID(), Release: part}
		if _, err := p.take(ctx, r, p.endTurn); err != nil {
			return // take has logged it; the store replaces the wake-ups
		}
	}
}

// take sends a request to the store until its result arrives; a repeated request has the same result. It calls failed
// after the first try that fails.
func (d *Dispatcher) take(ctx context.Context, r TakeRequest, failed func()) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	first := time.Now()
	for pause := firstRoundPause; ; pause = min(2*pause, longestRoundPause) {
		start := time.Now()
		taken, err := d.takeOnce(ctx, r)
		end := time.Now()
		if err == nil {
			if len(r.Wakeups) > 0 {
				d.cfg.Observer.Decided(end.Sub(start))
			}
			return result{taken, first, end}, nil
		}
		if errors.Is(err, ErrLost) {
			return result{}, err
		}
		if pause == firstRoundPause {
			failed()
			d.cfg.Log.WarnContext(ctx, "could not take notifications from the store; retrying", "partition", r.Partition,
				"error", err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			d.cfg.Log.WarnContext(ctx, "the store did not reply in time; the sweeper will set the wake-ups of this round again",
				"partition", r.Partition, "asked", len(r.Wakeups), "released", len(r.Release), "error", err)
			return result{}, err
		}
	}
}

// takeOnce sends a request once. A panic is an error, and so is a result that does not fit the request.
func (d *Dispatcher) takeOnce(ctx context.Context, r TakeRequest) (taken TakeResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the store panicked: %v", p)
		}
	}()
	taken, err = d.store.Take(ctx, r)
	if err == nil && len(taken.Results) != len(r.Wakeups) {
		err = fmt.Errorf("the store returned %[2]d results for %[1]d wake-ups", len(r.Wakeups), len(taken.Results))
	}
	return taken, err
}
