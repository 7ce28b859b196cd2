package agenda

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// ErrSeveralServers says that the partitions are on several servers, which can't be asked together.
var ErrSeveralServers = errors.New("the partitions are on several servers")

// Glance is what another store follows of the partitions, all of it read at once.
type Glance struct {
	// Builds and Counts are those of each partition, without the deferrals of categories.
	Builds map[int]Built
	Counts []PartitionCounts
	// Ends says that some partition has ends that the other store does not know of.
	Ends bool
	// Identity is that of the server, as [Agendas.Identity] gives it.
	Identity string
}

// Glance asks a single server once for what [Agendas.Identity], [Agendas.Builds], [Agendas.EachEnds] and
// [Agendas.Counts] ask for one by one. On Redis Cluster it returns [ErrSeveralServers].
func (a *Agendas) Glance(ctx context.Context) (*Glance, error) {
	if !a.oneServer {
		return nil, ErrSeveralServers
	}
	built, ends := make([]string, 0, 2*len(a.partitions)), make([]string, len(a.partitions))
	counts := make([]*redis.SliceCmd, len(a.partitions))
	pipe := a.client.Pipeline()
	info := pipe.Info(ctx, "server", "replication")
	for partition, prefix := range a.partitions {
		built, ends[partition] = append(built, prefix+"epoch", prefix+"mark"), prefix+"z"
	}
	inForce, unknown := pipe.MGet(ctx, built...), pipe.Exists(ctx, ends...)
	for partition, prefix := range a.partitions {
		counts[partition] = pipe.HMGet(ctx, prefix+"c", "pulls", "deferrals")
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	g := &Glance{Builds: map[int]Built{}, Ends: unknown.Val() > 0, Identity: identityOf(info.Val())}
	err := errors.Join(inForce.Err(), unknown.Err())
	if info.Err() != nil { // the embedded engine takes no section
		var unasked error
		g.Identity, unasked = a.Identity(ctx)
		err = errors.Join(err, unasked)
	}
	for partition := range a.partitions {
		var c struct {
			Pulls     int64 `redis:"pulls"`
			Deferrals int64 `redis:"deferrals"`
		}
		err = errors.Join(err, counts[partition].Err(), counts[partition].Scan(&c))
		if inForce.Err() == nil {
			g.Builds[partition] = builtOf(inForce.Val()[2*partition:])
		}
		g.Counts = append(g.Counts, PartitionCounts{
			Partition: partition, Epoch: g.Builds[partition].Epoch.number(), Pulls: c.Pulls, Deferrals: c.Deferrals,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("look at all partitions: %w", err)
	}
	return g, nil
}
