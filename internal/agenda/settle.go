package agenda

import (
	"context"
	"fmt"
	"strconv"

	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/agenda/reply"
	"github.com/pacer-notify/pacer/internal/dispatch"
)

// letters are the dispositions as the scripts write them.
var letters = map[dispatch.Disposition]any{
	dispatch.Delivered: keyspace.States.Delivered, dispatch.Failed: keyspace.States.Failed,
	dispatch.Retry: keyspace.States.Retrying, dispatch.Returned: keyspace.States.Queued,
	dispatch.Expired: keyspace.States.Expired, dispatch.Cancelled: keyspace.States.Cancelled,
	dispatch.Replaced: keyspace.States.Replaced, dispatch.Forgotten: "x",
}

// Settle writes the disposition of a grant.
func (a *Agendas) Settle(ctx context.Context, g *dispatch.Grant, o dispatch.Outcome) (dispatch.Settlement, error) {
	plain := !o.Refund && len(g.Items) == 0
	if plain && (o.Disposition == dispatch.Delivered || o.Disposition == dispatch.Failed) {
		ended, err := a.ends[g.Partition].Do(ctx, endRequest{g, o})
		if err != nil || !ended.leaseEnded {
			return ended.Settlement, keyspace.Fault(err)
		}
	}
	args := make([]any, 0, 32)
	args = append(args, g.Category, g.UserID, g.Notification.ID, number(int64(g.Generation)), letters[o.Disposition],
		o.Reason, micros(o.RetryAfter), slotOf(g, o), countOf(o), a.retention,
		strconv.FormatInt(g.Epoch, 10), a.cfg.replyOf(o))
	if o.Refund {
		args = a.cfg.Settings(g.UserID, g.Category).Plan.Args(args)
	}
	answer, err := a.Run(ctx, a.settle, g.Partition, args)
	if err != nil {
		return dispatch.Settlement{}, keyspace.Fault(err)
	}
	r := reply.Reader{Fields: answer}
	stale := r.Number(0) == 1
	a.cfg.reportDeferrals(r.List(1))
	return dispatch.Settlement{Stale: stale}, r.Fault
}

// replyOf is the provider's reply, to be kept here. Where another store keeps the notifications, it has the reply.
func (c Config) replyOf(o dispatch.Outcome) string {
	if c.Guarded {
		return ""
	}
	return o.Reply
}

// endBatch is how many deliveries one script ends at most.
const endBatch = 64

// endRequest is a delivery that ended and keeps its throttle slot.
type endRequest struct {
	*dispatch.Grant
	dispatch.Outcome
}

// endResult is what the end script did with it.
type endResult struct {
	dispatch.Settlement
	// leaseEnded tells that the notification waits again, and that the script has changed nothing.
	leaseEnded bool
}

// Extend extends the lease of a grant whose disposition can't be written yet.
func (a *Agendas) Extend(ctx context.Context, g *dispatch.Grant) error {
	args := []any{g.Notification.ID, number(int64(g.Generation)), a.lease}
	if err := a.extend.Run(ctx, a.Client, a.ScriptKeys(g.Partition), args...).Err(); err != nil {
		return fmt.Errorf("extend the lease of notification %s: %w", g.Notification.ID, keyspace.Fault(err))
	}
	return nil
}

// Part takes notifications out of the digest that a grant carries: they must not be sent.
func (a *Agendas) Part(ctx context.Context, g *dispatch.Grant, ids []string) error {
	args := []any{g.UserID, g.Notification.ID, number(int64(g.Generation))}
	for _, id := range ids {
		args = append(args, id)
	}
	return keyspace.Fault(a.part.Run(ctx, a.Client, a.ScriptKeys(g.Partition), args...).Err())
}

// endAll ends deliveries of a partition in one script.
func (a *Agendas) endAll(ctx context.Context, partition int, deliveries []endRequest) ([]endResult, error) {
	args := make([]any, 0, 1+5*len(deliveries))
	args = append(args, a.retention)
	for _, d := range deliveries {
		args = append(args, d.Notification.ID, number(int64(d.Generation)), letters[d.Disposition], d.Reason,
			a.cfg.replyOf(d.Outcome))
	}
	written, err := a.end.Run(ctx, a.Client, a.ScriptKeys(partition), args...).Int64Slice()
	if err != nil {
		return nil, err
	}
	if len(written) != len(deliveries) {
		return nil, fmt.Errorf("the end script returned %d results for %d deliveries", len(written), len(deliveries))
	}
	results := make([]endResult, len(written))
	for i := range written {
		results[i].Stale, results[i].leaseEnded = written[i] == 0, written[i] == 2
	}
	return results, nil
}

// slotOf says, in the form that the script reads, whether the slot is refunded, and whether the grant carries a digest.
func slotOf(g *dispatch.Grant, o dispatch.Outcome) any {
	n := int64(0)
	if o.Refund {
		n++
	}
	if len(g.Items) > 0 {
		n += 2
	}
	return number(n)
}

// countOf says, in the form that the script reads, what an outcome counts as.
func countOf(o dispatch.Outcome) string {
	switch {
	case o.Failure && o.Behind:
		return "4"
	case o.Failure:
		return "1"
	case o.Untried:
		return "2"
	case o.Behind:
		return "3"
	}
	return "0"
}
