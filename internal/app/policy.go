package app

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/policy"
)

// publishPolicy writes the policy's text where producers that write to the queue themselves find it.
func (a *App) publishPolicy(ctx context.Context, p *policy.Policy) error {
	if err := a.store.client.Set(ctx, policyKey, p.Text, 0).Err(); err != nil {
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
	woken, err := a.retime(ctx, changedCategories(before, p))
	if err != nil {
		a.log.Warn("what waits asks at its old times", "error", err)
	} else if woken > 0 {
		a.log.Info("what waits asks again under the new policy", "mailboxes", woken)
	}
}

// changedCategories are those whose notifications may have to wait shorter or longer than before.
func changedCategories(before, after *policy.Policy) map[string]bool {
	changed := map[string]bool{}
	for name, category := range after.Categories {
		if old, known := before.Categories[name]; !known || !reflect.DeepEqual(old, category) || before.BypassPriority != after.BypassPriority {
			changed[name] = true
		}
	}
	for name := range before.Categories {
		if _, kept := after.Categories[name]; !kept {
			changed[name] = true
		}
	}
	return changed
}

// retime has what waits in the categories ask again, and gives how many mailboxes that were. Every process with workers does
// it: ticks that come for nothing are let go.
func (a *App) retime(ctx context.Context, categories map[string]bool) (int, error) {
	if len(categories) == 0 {
		return 0, nil
	}
	woken := 0
	for lane := range a.boxes.Lanes() {
		err := a.boxes.EachMailbox(ctx, lane, func(box dispatch.Mailbox) error {
			if !categories[box.Category] {
				return nil
			}
			woken++
			return a.wake(ctx, box)
		})
		if err != nil {
			return woken, err
		}
	}
	return woken, nil
}
