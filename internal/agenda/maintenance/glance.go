package maintenance

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda/outlook"
)

// ErrSeveralServers says that the partitions are on several servers, which can't be asked together.
var ErrSeveralServers = errors.New("the partitions are on several servers")

// Glance is what another store follows of the partitions, all of it read at once.
type Glance struct {
	// Builds and Counts are those of each partition, without the deferrals of categories.
	Builds map[int]Built
	Counts []outlook.PartitionCounts
	// Ends says that some partition has ends that the other store does not know of.
	Ends bool
	// Identity is that of the server, as [Agendas.Identity] gives it.
	Identity string
}

// Glance asks a single server once for what [Agendas.Identity], [Agendas.Builds], [Agendas.EachEnds] and
// [Agendas.Counts] ask for one by one. On Redis Cluster it returns [ErrSeveralServers].
func (m *Agendas) Glance(ctx context.Context) (*Glance, error) {
	if !m.OneServer {
		return nil, ErrSeveralServers
	}
	built, ends := make([]string, 0, 2*m.Partitions()), make([]string, m.Partitions())
	counts := make([]*redis.SliceCmd, m.Partitions())
	pipe := m.Client.Pipeline()
	info := pipe.Info(ctx, "server", "replication")
	for partition, prefix := range m.Prefixes() {
		built, ends[partition] = append(built, prefix+"epoch", prefix+"mark"), prefix+"z"
	}
	inForce, unknown := pipe.MGet(ctx, built...), pipe.Exists(ctx, ends...)
	for partition, prefix := range m.Prefixes() {
		counts[partition] = pipe.HMGet(ctx, prefix+"c", "pulls", "deferrals")
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	g := &Glance{Builds: map[int]Built{}, Ends: unknown.Val() > 0, Identity: identityOf(info.Val())}
	err := errors.Join(inForce.Err(), unknown.Err())
	if info.Err() != nil { // the embedded engine takes no section
		var unasked error
		g.Identity, unasked = m.Identity(ctx)
		err = errors.Join(err, unasked)
	}
	for partition := range m.Prefixes() {
		var c struct {
			Pulls     int64 `redis:"pulls"`
			Deferrals int64 `redis:"deferrals"`
		}
		err = errors.Join(err, counts[partition].Err(), counts[partition].Scan(&c))
		if inForce.Err() == nil {
			g.Builds[partition] = builtOf(inForce.Val()[2*partition:])
		}
		g.Counts = append(g.Counts, outlook.PartitionCounts{
			Partition: partition, Epoch: g.Builds[partition].Epoch.Number(), Pulls: c.Pulls, Deferrals: c.Deferrals,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("look at all partitions: %w", err)
	}
	return g, nil
}
