//go:build faults

package faults_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/test/processtest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// failoverScenarios are those in which another Redis takes a master's place.
func failoverScenarios() []*scenario {
	var replica *redistest.Server
	var front *link
	var cluster *redistest.Cluster
	return []*scenario{
		{
			name: "CutOffReplicaPromoted", fault: "fail-over of Redis to a replica that had been cut off for 4 s",
			without: rebuilding,
			prepare: func(d *deployment) {
				d.redis, replica = redistest.Start(d.t), redistest.Start(d.t)
				d.replicate(replica, d.redis)
				front = d.link(d.redis.Addr())
				d.redisURL = "redis://" + front.addr() + "/0"
			},
			inject: func(d *deployment) {
				if err := replica.Client(d.t).ReplicaOf(d.t.Context(), "NO", "ONE").Err(); err != nil {
					d.fail("cut the replica off: %v", err)
				}
				d.last(4 * time.Second)
				d.redis.Kill()
				front.lead(replica.Addr())
			},
		},
		{
			name: "SentinelFailsOver", fault: "Sentinel: the master killed, its replica promoted",
			recovery: time.Minute,
			prepare: func(d *deployment) {
				d.redis, replica = redistest.Start(d.t), redistest.Start(d.t)
				d.replicate(replica, d.redis)
				d.redisURL = "redis+sentinel://" + d.sentinels() + "/pacer/0"
				if red() {
					d.redisURL = d.redis.URL() // that of the master alone
				}
			},
			inject:  func(d *deployment) { d.redis.Kill() },
			without: protection{name: "Sentinel"},
		},
		{
			name: "ClusterShardFailsOver", fault: "Redis Cluster of three shards: one's master killed",
			recovery: time.Minute, without: rebuilding,
			doubled: inFlight,
			prepare: func(d *deployment) {
				cluster = redistest.StartCluster(d.t, 3, true)
				d.redisURL = cluster.URL()
			},
			inject: func(d *deployment) {
				d.inFlight = d.sending() + 8 // and what begins before the kill
				cluster.Masters[1].Kill()
			},
		},
		{
			name:  "ClusterCutOffReplicaFailsOver",
			fault: "Redis Cluster: one's master killed, whose replica had been cut off for 4 s", recovery: time.Minute,
			without: rebuilding,
			doubled: inFlight,
			prepare: func(d *deployment) {
				cluster = redistest.StartCluster(d.t, 3, true)
				d.redisURL = cluster.URL()
			},
			inject: func(d *deployment) {
				master := cluster.Masters[1].Client(d.t)
				for _, command := range [][]any{
					{"ACL", "SETUSER", "default", "-psync", "-sync"},
					{"CLIENT", "KILL", "TYPE", "replica"},
				} {
					if err := master.Do(d.t.Context(), command...).Err(); err != nil {
						d.fail("cut the replica off: %v: %v", command, err)
					}
				}
				d.last(4 * time.Second)
				d.inFlight = d.sending() + 8
				cluster.Masters[1].Kill()
			},
		},
	}
}

// replicate has one server follow another.
func (d *deployment) replicate(replica, master *redistest.Server) {
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		d.fail("%v", err)
	}
	client := replica.Client(d.t)
	if err := client.ReplicaOf(d.t.Context(), host, port).Err(); err != nil {
		d.fail("%v", err)
	}
	d.await("the replica follows", 20*time.Second, func() bool {
		return strings.Contains(client.Info(d.t.Context(), "replication").Val(), "master_link_status:up")
	})
}

// sentinels are three of them that watch over the master. It gives their addresses.
func (d *deployment) sentinels() string {
	host, port, err := net.SplitHostPort(d.redis.Addr())
	if err != nil {
		d.fail("%v", err)
	}
	var addresses []string
	for range 3 {
		own, err := processtest.FreePort()
		if err != nil {
			d.fail("%v", err)
		}
		dir := d.t.TempDir()
		config := filepath.Join(dir, "sentinel.conf")
		text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor pacer %s %s 2\nsentinel down-after-milliseconds pacer 1000\n"+
			"sentinel failover-timeout pacer 10000\n", own, dir, host, port)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			d.fail("%v", err)
		}
		process := exec.Command("redis-server", config, "--sentinel")
		process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := process.Start(); err != nil {
			d.fail("%v", err)
		}
		d.t.Cleanup(func() {
			_ = process.Process.Kill()
			_ = process.Wait() // killed: never without an error
		})
		addresses = append(addresses, processtest.Addr(own))
	}
	client := redis.NewSentinelClient(&redis.Options{Addr: addresses[0]})
	defer func() { _ = client.Close() }()
	d.await("the sentinels find each other and the replica", 30*time.Second, func() bool {
		state, err := client.Master(d.t.Context(), "pacer").Result()
		return err == nil && state["num-other-sentinels"] == "2" && state["num-slaves"] == "1"
	})
	return strings.Join(addresses, ",")
}
