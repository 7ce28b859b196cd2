package chaos_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

// watched is the store of a process, with somebody who looks on.
type watched struct {
	store
	proc *process
}

// Take implements dispatch.Store.
func (s watched) Take(ctx context.Context, round dispatch.TakeRequest) (dispatch.TakeResult, error) {
	w, op := s.proc.w, operationOf(ctx)
	asked, again := w.ledger.asks(round)
	sent := round
	if w.mutation == "lost rounds are asked anew" {
		sent.ID = fmt.Sprintf("%s-%d", round.ID, time.Now().UnixNano())
	}
	reply, err := s.store.Take(ctx, sent)
	if op == nil || err != nil {
		return reply, err
	}
	w.ledger.noteResult(op, round, reply, asked)
	if again {
		w.checkTold(round.Partition)
	}
	return reply, nil
}

func operationOf(ctx context.Context) *operation {
	op, _ := ctx.Value(opKey{}).(*operation)
	return op
}

// asks notes that a round is asked for. It reports when it was for the first time, since then the store may have
// decided, and whether that has been before.
func (l *ledger) asks(round dispatch.TakeRequest) (first time.Time, again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked, again := l.rounds[round.ID]
	if !again {
		asked = time.Now()
		l.rounds[round.ID] = asked
		l.pending[round.ID] = round.Partition
	}
	return asked, again
}

// noteResult notes what a round granted.
func (l *ledger) noteResult(op *operation, round dispatch.TakeRequest, reply dispatch.TakeResult, asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pending, round.ID)
	l.checkGenerations(round, reply, asked)
	n, all := 0, slices.Clone(reply.Results)
	for _, pulled := range reply.Served {
		all = append(all, pulled.WakeupResult)
	}
	for _, taken := range all {
		for _, g := range taken.Grants {
			n++
			l.grants[granted{op, g.Notification.ID}] = &grant{
				at: asked, replied: time.Now(), ahead: g.StartIn > 0,
				place: place{round.ID, n},
			}
			l.told[g.Notification.ID+"#"+strconv.Itoa(g.Generation)] = true
		}
	}
}

// atWork is a wake-up of which somebody was told.
type atWork struct {
	generation int64
	since      time.Time
}

// checkGenerations has a wake-up of an older generation change nothing, once somebody has a newer one: else two work
// for one user, and each of them believes that no other does. The ledger is locked.
func (l *ledger) checkGenerations(round dispatch.TakeRequest, reply dispatch.TakeResult, asked time.Time) {
	for i, w := range round.Wakeups {
		newest, taken := l.newest[w.UserID], reply.Results[i]
		if w.Generation < newest.generation && asked.After(newest.since) &&
			(taken.Held || taken.Again || len(taken.Grants) > 0) {
			l.broken = append(l.broken, "P8: a wake-up of "+w.UserID+" was acknowledged although somebody else had a newer one")
		}
	}
	pulled := slices.Clone(reply.Pulled)
	for _, served := range reply.Served {
		pulled = append(pulled, served.Wakeup)
	}
	for _, w := range pulled {
		if w.Generation > l.newest[w.UserID].generation {
			l.newest[w.UserID] = atWork{w.Generation, time.Now()}
		}
	}
}

// checkTold is called when the result of a round arrived that had to be asked for again: of all that is in flight in
// its partition somebody was told, unless others are still asking, or more went wrong than replies that were lost.
func (w *world) checkTold(partition int) {
	w.mu.Lock()
	odd := w.losses > 0 || w.rebuilt || w.faults["late redis"] > 0
	w.mu.Unlock()
	l := w.ledger
	l.mu.Lock()
	for _, other := range l.pending {
		odd = odd || other == partition
	}
	l.mu.Unlock()
	if odd {
		return
	}
	var granted map[string]string
	w.peek(func(ctx context.Context, client *redis.Client) { granted = inFlight(ctx, client, partition) })
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, generation := range granted {
		if !l.told[id+"#"+generation] {
			l.broken = append(l.broken, "P5: "+id+" was granted in a round whose reply was lost, and who asked again was not told")
		}
	}
}

// inFlight returns what is being delivered in a partition, with its generation.
func inFlight(ctx context.Context, client *redis.Client, partition int) map[string]string {
	prefix, found := "pacer:{push-"+strconv.Itoa(partition)+"}:", map[string]string{}
	for _, id := range client.ZRange(ctx, prefix+"e", 0, -1).Val() {
		found[id] = client.HGet(ctx, prefix+"n:"+id, "g").Val()
	}
	return found
}

// Settle implements dispatch.Store.
func (s watched) Settle(ctx context.Context, g *dispatch.Grant, o dispatch.Outcome) (dispatch.Settlement, error) {
	op := operationOf(ctx)
	l := s.proc.w.ledger
	if o.Disposition == dispatch.Returned {
		s.proc.late.Store(true)
	}
	settlement, err := s.store.Settle(ctx, g, o)
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.grants[granted{op, g.Notification.ID}]
	if held == nil || held.d == nil || s.proc.isDead() {
		return settlement, err
	}
	switch {
	case err == nil && !settlement.Stale && o.Disposition != dispatch.Retry && o.Disposition != dispatch.Returned:
		held.d.settled = time.Now()
	case err != nil:
		held.d.storeFailed = true
	}
	return settlement, err
}
