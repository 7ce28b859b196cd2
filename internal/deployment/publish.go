package deployment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/settings"
)

// publishing writes on Redis what others have to know of the deployment.
type publishing struct {
	client   redis.UniversalClient
	settings *settings.Resolved
	rules    *Rules
	// attached is true in a process that knows only what it was told.
	attached bool
	// agree writes the number of partitions, or refuses to.
	agree func(context.Context) error
	log   *slog.Logger
}

// succeed remembers the policy that was published before: it may have categories for which something waits, and whose
// windows count on.
func (p *publishing) succeed(ctx context.Context) {
	if before, err := Policy(ctx, p.client); err == nil && before != nil {
		p.rules.Succeeds(before)
	}
}

// everything publishes all of it.
func (p *publishing) everything(ctx context.Context) error {
	p.succeed(ctx)
	if err := p.policy(ctx); err != nil {
		return err
	}
	return errors.Join(publishChannels(ctx, p.client, p.rules.Set, TargetsAllow(p.settings)), p.templates(ctx))
}

// policy publishes the policy that is in force now.
func (p *publishing) policy(ctx context.Context) error {
	return PublishPolicy(ctx, p.client, p.rules.Current())
}

// again writes to a Redis that has lost its data what all processes of the deployment have in common. An attached
// process knows of that only what it was told, and that may be what holds before the first dispatcher has started: so
// it writes the number of partitions, and leaves the rest to the dispatchers.
func (p *publishing) again(ctx context.Context) error {
	if err := p.agree(ctx); err != nil || p.attached {
		return err
	}
	return p.everything(ctx)
}

// rebuilding writes what all processes have in common as a rebuild begins, and again as it ends. What can't be written
// now is written by the next look of any dispatcher.
func (p *publishing) rebuilding(ctx context.Context) {
	if err := p.again(ctx); err != nil {
		p.log.WarnContext(ctx,
			"could not write the number of partitions and the policy to the rebuilt Redis; trying again at the next check",
			"error", err)
	}
}

// look publishes again what is missing in Redis: it has lost its data, and what rebuilt it may not know what this
// process does, or may have died. Templates are not looked for, since a process without any removes them.
func (p *publishing) look(ctx context.Context) error {
	if p.settings.Redis == nil {
		return nil // it is in this process, and ends with it
	}
	pipe := p.client.Pipeline()
	var found []*redis.IntCmd
	for _, key := range []string{partitionsKey, policyKey, channelsKey} {
		found = append(found, pipe.Exists(ctx, key))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("look for what is published: %w", err)
	}
	for _, one := range found {
		if one.Val() == 0 {
			return p.again(ctx)
		}
	}
	return nil
}
