package deployment

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// succeedPublished remembers the policy that was published before: it may have categories for which something waits,
// and whose windows count on.
func (d *Deployment) succeedPublished(ctx context.Context) {
	if before, err := Policy(ctx, d.Redis.Client); err == nil && before != nil {
		d.Rules.Succeeds(before)
	}
}

// publish writes what others have to know of the deployment.
func (d *Deployment) publish(ctx context.Context) error {
	client := d.Redis.Client
	d.succeedPublished(ctx)
	if err := PublishPolicy(ctx, client, d.Rules.Current()); err != nil {
		return err
	}
	return errors.Join(publishChannels(ctx, client, d.Rules.Set, TargetsAllow(d.cfg.Settings)), d.publishTemplates(ctx))
}

// publishAgain writes to a Redis that has lost its data what all processes of the deployment have in common. An
// attached process knows of that only what it was told, and that may be what holds before the first dispatcher has
// started: so it writes the number of partitions, and leaves the rest to the dispatchers.
func (d *Deployment) publishAgain(ctx context.Context) error {
	if err := d.agreeOnPartitions(ctx); err != nil || d.attached {
		return err
	}
	return d.publish(ctx)
}

// rebuilding writes what all processes have in common as a rebuild begins, and again as it ends. What can't be written
// now is written by the next look of any dispatcher.
func (d *Deployment) rebuilding(ctx context.Context) {
	if err := d.publishAgain(ctx); err != nil {
		d.cfg.Log.WarnContext(ctx,
			"could not write the number of partitions and the policy to the rebuilt Redis; trying again at the next check",
			"error", err)
	}
}

// lookAfterPublished publishes again what is missing in Redis: it has lost its data, and what rebuilt it may not know
// what this process does, or may have died. Templates are not looked for, since a process without any removes them.
func (d *Deployment) lookAfterPublished(ctx context.Context) error {
	if d.cfg.Settings.Redis == nil {
		return nil // it is in this process, and ends with it
	}
	pipe := d.Redis.Client.Pipeline()
	var found []*redis.IntCmd
	for _, key := range []string{partitionsKey, policyKey, channelsKey} {
		found = append(found, pipe.Exists(ctx, key))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("look for what is published: %w", err)
	}
	for _, one := range found {
		if one.Val() == 0 {
			return d.publishAgain(ctx)
		}
	}
	return nil
}
