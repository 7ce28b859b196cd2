package app

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/pacer-notify/pacer/internal/policy"
)

// publishPolicy writes the policy's text where producers that write to the queue themselves find it.
func (a *App) publishPolicy(ctx context.Context, p *policy.Policy) error {
	if err := a.redis.client.Set(ctx, policyKey, p.Text, 0).Err(); err != nil {
		return fmt.Errorf("publish the policy: %w", err)
	}
	return nil
}

// policyChanged is called when a new policy has come into force.
func (a *App) policyChanged(p *policy.Policy) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := a.publishPolicy(ctx, p); err != nil {
		a.log.Warn("producers that write to the queue themselves still see the old policy", "error", err)
	}
	now := time.Now()
	a.policySince.Store(&now)
	before := a.inForce.Swap(p)
	if a.workers == nil || before == nil {
		return
	}
	if !limitsDiffer(before, p) {
		return
	}
	woken, err := a.retime(ctx)
	if err != nil {
		a.log.Warn("could not reschedule what waits under the new policy; it keeps its slots", "error", err)
	} else if woken > 0 {
		a.log.Info("rescheduled what waits under the new policy", "users", woken)
	}
}

// limitsDiffer tells whether notifications may have to wait shorter or longer than before.
func limitsDiffer(before, after *policy.Policy) bool {
	return before.BypassPriority != after.BypassPriority || !reflect.DeepEqual(before.Categories, after.Categories)
}

// retimePause lies between some hundred users that are rescheduled and the next: a change of the policy is not a flood.
const retimePause = 20 * time.Millisecond

// retime has every user of whom something waits looked at again, and gives how many that were. Every process with
// workers does it: a wake-up that comes for nothing costs one pull.
func (a *App) retime(ctx context.Context) (woken int, err error) {
	for partition := range a.agendas.Partitions() {
		err := a.agendas.EachUser(ctx, partition, func(users []string) error {
			woken += len(users)
			if err := a.agendas.Wake(ctx, partition, users...); err != nil {
				return err
			}
			select {
			case <-time.After(retimePause):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if err != nil {
			return woken, err
		}
	}
	return woken, nil
}
