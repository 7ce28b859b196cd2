//go:build faults

package faults_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/test/redistest"
)

// Protections that several scenarios are about.
var (
	rebuilding = protection{name: "rebuild", mutations: "no-relay", late: true}
	settling   = protection{name: "settlements are tried again", mutations: "settle-once"}
	// A frozen Redis does, once it goes on, what it was sent before. So what it granted is found again, and what nobody
	// waits for any more is repeated or swept up. No one of these is missed alone.
	roomy = protection{
		name: "time-outs with room, repeats, and the sweeper", mutations: "impatient-redis,settle-once,no-sweep",
		late: true,
	}
	reported = protection{
		name: "time-outs with room, repeats, the sweeper, and the relay", late: true,
		mutations: roomy.mutations + ",no-sweeper",
	}
	// What has ended is not claimed again, whatever Redis believes; and Redis is told of an end until it knows.
	fencing  = protection{name: "fence", rewrites: slices.Concat(unfenced, claimsWhatEnded)}
	sweeping = protection{name: "sweeper", mutations: "no-sweep"}
	relaying = protection{name: "relay", mutations: "no-sweeper"}
)

// unfenced is a store that claims what another worker has, and takes a result under an older claim.
var unfenced = []rewrite{
	{
		file: "internal/store/postgres/take.go",
		says: "\t\tAND (n.status <> 'sending' OR ` + columns.LapsedSQL + `)\n",
	},
	{
		file: "internal/store/postgres/settle.go",
		says: " AND n.generation = a.claim AND n.status = 'sending'\n", instead: "\n",
	},
}

// claimsWhatEnded is a store that lets go what has ended.
var claimsWhatEnded = []rewrite{{
	file: "internal/store/postgres/take.go",
	says: " AND n.status IN ('waiting', 'retrying', 'sending')\n", instead: "\n",
}}

// writesNoResults is a Redis that takes no result either when it is full.
var writesNoResults = protection{
	name: "results are written when Redis is full", mutations: settling.mutations, rewrites: []rewrite{{
		file: "internal/agenda/agenda.go",
		says: "script.NewWhenFull(source)", instead: "script.New(source)",
	}},
}

// redisScenarios are what happens to one Redis.
func redisScenarios() []*scenario {
	half := 500 * time.Millisecond
	return []*scenario{
		{
			name: "RedisFlushed", soak: true, fault: "`FLUSHALL`", users: 400, each: 50, without: rebuilding,
			inject: func(d *deployment) { d.redis.FlushAll() },
		},
		{
			name: "RedisRestartedEmpty", soak: true, fault: "Redis: SIGKILL, started again empty", users: 400, each: 50,
			without: rebuilding,
			inject:  func(d *deployment) { d.redis.Restart() },
		},
		{
			name: "RedisPowerCut", fault: "Redis: power cut, the last second of its append-only file is gone",
			without: rebuilding,
			prepare: withArgs("--appendonly", "yes"), inject: cutPower,
		},
		{
			name: "RedisRestartedWithData", fault: "Redis: SIGKILL, started again with its append-only file (`always`)",
			store:   inRedis,
			prepare: withArgs("--appendonly", "yes", "--appendfsync", "always"),
			inject:  func(d *deployment) { d.redis.Restart() },
			without: protection{name: "append-only file", prepare: withArgs("--appendonly", "no")},
		},
		{
			name: "RedisFrozen4s", soak: true, fault: "Redis frozen for 4 s, deliveries in flight", slow: half,
			without: reported, inject: freeze(4 * time.Second),
		},
		{
			name: "RedisFrozen16s", soak: true, fault: "Redis frozen for 16 s, longer than a lease", slow: half,
			without: reported, inject: freeze(16 * time.Second),
		},
		{
			name: "RedisFrozenShortly", soak: true, fault: "Redis frozen for 3.5 s, deliveries in flight",
			store: inRedis, slow: half, without: roomy,
			inject: freeze(3500 * time.Millisecond),
		},
		{
			name: "RedisConnectionsCut", soak: true, fault: "every connection to Redis cut five times a second for 5 s",
			store: inRedis, slow: half, without: settling, inject: cutConnections,
		},
		{
			name: "RedisWithoutReplicas", soak: true,
			fault: "Redis refuses writes for want of replicas (NOREPLICAS), 3 s", store: inRedis, slow: half,
			without: settling,
			inject: func(d *deployment) {
				d.redis.ConfigSet("min-replicas-to-write", "1")
				d.last(3 * time.Second)
				d.redis.ConfigSet("min-replicas-to-write", "0")
			},
		},
		{
			name: "RedisReadOnly", soak: true, fault: "Redis turned into a replica (READONLY) for 3 s", store: inRedis,
			slow: half, without: settling, inject: demote,
		},
		{
			name: "RedisPasswordChanged", fault: "Redis's password changed and changed back (NOAUTH), 3 s",
			store: inRedis, slow: half, without: settling, inject: lockOut,
		},
		{
			name: "RedisFull", soak: true, fault: "Redis full (`maxmemory`, noeviction) for 8 s", without: relaying,
			inject: fill(8 * time.Second),
		},
		{
			name: "RedisFullShortly", soak: true, fault: "Redis full (`maxmemory`, noeviction) for 3 s", store: inRedis,
			slow: half, without: writesNoResults, inject: fill(3 * time.Second),
		},
		{
			name: "RedisConnectionsUsedUp", soak: true, fault: "Redis has no connection left (`maxclients`) for 3 s",
			store: inRedis, slow: half, without: settling, inject: useUpClients,
		},
		{
			name: "QueueDeleted", soak: true, fault: "asynq's lists and schedules deleted", without: sweeping,
			inject: deleteQueue, recovery: time.Minute,
		},
	}
}

// withArgs gives a deployment a Redis with arguments, unless it has one.
func withArgs(args ...string) func(*deployment) {
	return func(d *deployment) {
		if d.redis == nil {
			d.redis = redistest.Start(d.t, args...)
			d.redisURL = d.redis.URL()
		}
	}
}

// last lets a fault last.
func (d *deployment) last(duration time.Duration) { <-time.After(duration) }

// every does something over and over.
func (d *deployment) every(pause, duration time.Duration, do func()) {
	for end := time.Now().Add(duration); time.Now().Before(end); <-time.After(pause) {
		do()
	}
}

// redisDo runs a command that a fault consists of.
func (d *deployment) redisDo(args ...any) {
	if err := d.redis.Client(d.t).Do(d.t.Context(), args...).Err(); err != nil {
		d.fail("%v: %v", args, err)
	}
}

func freeze(duration time.Duration) func(*deployment) {
	return func(d *deployment) {
		d.redis.Freeze()
		d.last(duration)
		d.redis.Thaw()
	}
}

// cutPower kills Redis and takes away what it wrote in the last second.
func cutPower(d *deployment) {
	files, err := filepath.Glob(filepath.Join(d.redis.Dir(), "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) != 1 {
		d.fail("find the append-only file: %v %v", files, err)
	}
	before, err := os.Stat(files[0])
	if err != nil {
		d.fail("look at the append-only file: %v", err)
	}
	d.last(time.Second)
	d.redis.Kill()
	after, err := os.Stat(files[0])
	if err != nil || os.Truncate(files[0], before.Size()) != nil {
		d.fail("cut the append-only file: %v", err)
	}
	d.note("%d KiB cut off", (after.Size()-before.Size())>>10)
	d.redis.Restart()
}

func cutConnections(d *deployment) {
	client := d.redis.Client(d.t)
	d.every(200*time.Millisecond, 5*time.Second, func() {
		if err := client.Do(d.t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
			d.fail("cut the connections: %v", err)
		}
	})
}

// demote makes Redis the replica of a server that is not there, and a master again.
func demote(d *deployment) {
	d.redisDo("REPLICAOF", "127.0.0.1", "1")
	d.last(3 * time.Second)
	d.redisDo("REPLICAOF", "NO", "ONE")
}

// lockOut changes the password and ends the connections that know the old one.
func lockOut(d *deployment) {
	client := d.redis.Client(d.t).Conn()
	defer func() { _ = client.Close() }()
	do := func(args ...any) {
		if err := client.Do(d.t.Context(), args...).Err(); err != nil {
			d.fail("%v: %v", args, err)
		}
	}
	do("CONFIG", "SET", "requirepass", "other")
	do("AUTH", "other")
	do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	d.last(3 * time.Second)
	do("CONFIG", "SET", "requirepass", "")
}

func fill(duration time.Duration) func(*deployment) {
	return func(d *deployment) {
		d.redis.ConfigSet("maxmemory", "100kb")
		d.last(duration)
		d.redis.ConfigSet("maxmemory", "0")
	}
}

// useUpClients takes every connection that the server has.
func useUpClients(d *deployment) {
	const limit = 20
	client := d.redis.Client(d.t).Conn()
	defer func() { _ = client.Close() }()
	do := func(args ...any) {
		if err := client.Do(d.t.Context(), args...).Err(); err != nil {
			d.fail("%v: %v", args, err)
		}
	}
	do("CONFIG", "SET", "maxclients", limit)
	var taken []net.Conn
	defer func() {
		for _, conn := range taken {
			_ = conn.Close()
		}
		do("CONFIG", "SET", "maxclients", 10000)
	}()
	d.every(100*time.Millisecond, 3*time.Second, func() {
		if len(taken) < limit {
			do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			taken = nil
		}
		for len(taken) < limit {
			conn, err := (&net.Dialer{}).DialContext(d.t.Context(), "tcp", d.redis.Addr())
			if err != nil {
				d.fail("take a connection: %v", err)
			}
			taken = append(taken, conn)
		}
	})
}

// deleteQueue deletes what asynq keeps of all partitions but the tasks themselves.
func deleteQueue(d *deployment) {
	client := d.redis.Client(d.t)
	deleted := int64(0)
	for _, list := range []string{"pending", "scheduled", "retry"} {
		n, err := deleteMatching(d.t.Context(), client, "asynq:{*}:"+list)
		if err != nil {
			d.fail("delete %s: %v", list, err)
		}
		deleted += n
	}
	d.note("%d keys deleted", deleted)
}

func deleteMatching(ctx context.Context, client *redis.Client, pattern string) (int64, error) {
	keys, err := client.Keys(ctx, pattern).Result()
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	n, err := client.Del(ctx, keys...).Result()
	if err != nil {
		return 0, fmt.Errorf("delete %d keys: %w", len(keys), err)
	}
	return n, nil
}
