package deployment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/beat"
	"github.com/pacer-notify/pacer/internal/policy"
)

const (
	// lookEvery is how often an attached process looks whether another policy was published, and a dispatcher whether
	// what it published is still there. lookTimeout is how long the former may take.
	lookEvery, lookTimeout = time.Second, 5 * time.Second
)

// PublishedPolicy is the policy that the deployment's dispatchers publish, as an attached process knows it. While it
// can't be read, the one that was known stays in force.
type PublishedPolicy struct {
	client   redis.UniversalClient
	log      *slog.Logger
	current  atomic.Pointer[policy.Policy]
	replaced func()
	refused  string // the text that could not be parsed last, so that each is logged once
}

// Current is the policy in force.
func (p *PublishedPolicy) Current() *policy.Policy { return p.current.Load() }

// Run looks for another policy until ctx ends.
func (p *PublishedPolicy) Run(ctx context.Context) {
	ticker := beat.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			ticker.Next()
		}
		if err := p.Refresh(ctx); err != nil && ctx.Err() == nil {
			p.log.DebugContext(ctx, "could not check for a changed policy; keeping the known one until the next check",
				"error", err)
		}
	}
}

// Refresh puts in force what was published since. It must not run twice at once.
func (p *PublishedPolicy) Refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	text, err := p.client.Get(ctx, policyKey).Result()
	if errors.Is(err, redis.Nil) { // Redis was lost; the dispatchers publish again
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the deployment's policy: %w", err)
	}
	if text == p.Current().Text || text == p.refused {
		return nil
	}
	next, err := parsePublished(text)
	if err != nil {
		p.refused = text
		p.log.WarnContext(ctx, "this version can't read the deployment's policy; keeping the policy in force",
			"error", err)
		return nil
	}
	p.refused = ""
	p.current.Store(next)
	p.replaced()
	return nil
}
