package deployment

import (
	"context"
	"fmt"

	"github.com/pacer-notify/pacer/internal/store/postgres/rebuild"
)

// agreeOnPartitions keeps one number of partitions per deployment, for a process that knows it from its settings. Where
// Postgres has built that many, another number in Redis is wrong: a producer that does not know of Postgres wrote it
// after Redis had lost its data.
func (d *Deployment) agreeOnPartitions(ctx context.Context) error {
	own := d.cfg.Settings.Partitions
	stored, err := Partitions(ctx, d.Redis.Client)
	if err != nil {
		return err
	}
	if stored == 0 || stored == own {
		return AgreeOnPartitions(ctx, d.Redis.Client, own)
	}
	built, err := d.builtPartitions(ctx)
	if err != nil {
		return err
	}
	if built != own {
		return refusePartitions(stored, own)
	}
	if err := d.Redis.Client.Set(ctx, partitionsKey, own, 0).Err(); err != nil {
		return fmt.Errorf("write the number of partitions: %w", err)
	}
	return nil
}

// adoptPartitions has an attached process use the deployment's number of partitions. Its own settings say only how many
// a deployment gets that has never worked. So while Redis has lost its data, Postgres tells, and the process writes
// nothing: the dispatchers do.
func (d *Deployment) adoptPartitions(ctx context.Context) error {
	partitions, err := Partitions(ctx, d.Redis.Client)
	if err != nil {
		return err
	}
	if partitions == 0 {
		if partitions, err = d.builtPartitions(ctx); err != nil {
			return err
		}
	}
	if partitions == 0 {
		return AgreeOnPartitions(ctx, d.Redis.Client, d.cfg.Settings.Partitions)
	}
	d.cfg.Settings.Partitions = partitions
	return nil
}

// builtPartitions is how many partitions were built from Postgres; 0 when none was, and without Postgres.
func (d *Deployment) builtPartitions(ctx context.Context) (int, error) {
	if d.Pool == nil {
		return 0, nil
	}
	return rebuild.Partitions(ctx, d.Pool)
}
