package redistest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/test/processtest"
)

const (
	// slots is how many a Redis Cluster has.
	slots = 16384
	// meetAgain is after which time the nodes that do not know all others yet meet again.
	meetAgain = 10 * time.Second
)

// Cluster is a Redis Cluster of one test: so many masters, each with a replica when that is wanted.
type Cluster struct {
	// Masters are those that the cluster began with, in the order of their slots; Replicas[i] follows Masters[i].
	Masters, Replicas []*Server
}

// StartCluster runs a cluster that belongs to the test. It returns when all slots are served.
func StartCluster(tb testing.TB, masters int, replicas bool) *Cluster {
	tb.Helper()
	c := &Cluster{}
	node := func() *Server {
		// The cluster's bus has a port of its own, 10,000 higher unless it is given.
		bus, err := processtest.FreePort()
		if err != nil {
			tb.Fatal(err)
		}
		return Start(tb, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-port",
			fmt.Sprint(bus),
			"--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0")
	}
	for range masters {
		c.Masters = append(c.Masters, node())
	}
	if replicas {
		for range masters {
			c.Replicas = append(c.Replicas, node())
		}
	}
	ctx, cancel := context.WithTimeout(tb.Context(), clusterTimeout)
	defer cancel()
	if err := c.join(ctx, tb); err != nil {
		tb.Fatalf("form a cluster of %d: %v", masters, err)
	}
	return c
}

// URL is the cluster's, as pacer takes it.
func (c *Cluster) URL() string {
	var addrs []string
	for _, s := range c.Masters {
		addrs = append(addrs, s.Addr())
	}
	return "redis+cluster://" + strings.Join(addrs, ",")
}

// join has the nodes know one another, gives the masters their slots and the replicas their masters.
func (c *Cluster) join(ctx context.Context, tb testing.TB) error {
	tb.Helper()
	for i, s := range c.Masters {
		client := s.Client(tb)
		from, to := i*slots/len(c.Masters), (i+1)*slots/len(c.Masters)-1
		if err := client.ClusterAddSlotsRange(ctx, from, to).Err(); err != nil {
			return err
		}
		if err := client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return err
		}
	}
	if err := c.meet(ctx, tb); err != nil {
		return err
	}
	for i, s := range c.Replicas {
		id, err := c.Masters[i].Client(tb).ClusterMyID(ctx).Result()
		if err != nil {
			return err
		}
		if err := s.Client(tb).ClusterReplicate(ctx, id).Err(); err != nil {
			return err
		}
	}
	return c.follow(ctx, tb)
}

// meet has the other nodes meet the first master until all of them know one another. It repeats that, for a node that
// does not respond within the cluster's time-out, as on a busy machine, is forgotten.
func (c *Cluster) meet(ctx context.Context, tb testing.TB) error {
	tb.Helper()
	all := slices.Concat(c.Masters, c.Replicas)
	host, port, _ := strings.Cut(c.Masters[0].Addr(), ":")
	bus, err := c.Masters[0].Client(tb).ConfigGet(ctx, "cluster-port").Result()
	if err != nil {
		return err
	}
	for {
		for _, s := range all[1:] {
			if err := s.Client(tb).Do(ctx, "CLUSTER", "MEET", host, port, bus["cluster-port"]).Err(); err != nil {
				return err
			}
		}
		round, cancel := context.WithTimeout(ctx, meetAgain)
		err := until(round, tb, all, func(client *redis.Client) (string, bool) {
			info, err := client.ClusterInfo(round).Result()
			// A node that does not insist on full coverage is ok before it knows of the slots of the others.
			return info, err == nil && strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, fmt.Sprintf("cluster_slots_ok:%d\r\n", slots)) &&
				strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r\n", len(all)))
		})
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// follow waits until the replicas have what their masters have: none takes over before.
func (c *Cluster) follow(ctx context.Context, tb testing.TB) error {
	tb.Helper()
	return until(ctx, tb, c.Replicas, func(client *redis.Client) (string, bool) {
		info, err := client.Info(ctx, "replication").Result()
		return info, err == nil && strings.Contains(info, "master_link_status:up")
	})
}

// until waits until each of the servers is as wanted. look says how one is now.
func until(ctx context.Context, tb testing.TB, servers []*Server, look func(*redis.Client) (string, bool)) error {
	tb.Helper()
	for _, s := range servers {
		client := s.Client(tb)
		for {
			info, ok := look(client)
			if ok {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s: %s: %w", s.Addr(), info, ctx.Err())
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}

// MoveSlot moves a slot and its keys from one master to another as redis-cli does, calling between, which may be nil,
// when about half of the keys have moved. It moves each half in one command: on a slow machine, the slot would be
// half-way for longer than workers try to write results.
func (c *Cluster) MoveSlot(tb testing.TB, slot int, from, to *Server, between func()) {
	tb.Helper()
	ctx := tb.Context()
	source, target := from.Client(tb), to.Client(tb)
	sourceID, targetID := source.ClusterMyID(ctx).Val(), target.ClusterMyID(ctx).Val()
	do := func(node *redis.Client, args ...any) {
		tb.Helper()
		if err := node.Do(ctx, args...).Err(); err != nil {
			tb.Fatalf("%v: %v", args, err)
		}
	}
	do(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", sourceID)
	do(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", targetID)
	host, port, _ := strings.Cut(to.Addr(), ":")
	half := int(source.ClusterCountKeysInSlot(ctx, slot).Val() / 2)
	for {
		keys, err := source.ClusterGetKeysInSlot(ctx, slot, half+1).Result()
		if err != nil {
			tb.Fatalf("list the keys of slot %d: %v", slot, err)
		}
		if len(keys) == 0 {
			break
		}
		move := []any{"MIGRATE", host, port, "", 0, patience.Milliseconds(), "KEYS"}
		for _, key := range keys {
			move = append(move, key)
		}
		do(source, move...)
		if between != nil {
			between()
			between = nil
		}
	}
	for _, node := range []*redis.Client{target, source} {
		do(node, "CLUSTER", "SETSLOT", slot, "NODE", targetID)
	}
}

// Holder is the master that serves a key's slot, as the first master sees it, and the slot.
func (c *Cluster) Holder(tb testing.TB, key string) (master *Server, slot int) {
	tb.Helper()
	number, err := c.Masters[0].Client(tb).ClusterKeySlot(tb.Context(), key).Result()
	if err != nil {
		tb.Fatal(err)
	}
	return c.Masters[int(number)*len(c.Masters)/slots], int(number)
}
