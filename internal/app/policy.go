package app

import (
	"context"
	"fmt"
	"time"

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
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := a.publishPolicy(ctx, p); err != nil {
		a.log.Warn("producers that write to the queue themselves still see the old policy", "error", err)
	}
}
