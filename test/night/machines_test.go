package night_test

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/test/processtest"
)

// redisClient is a client on the deployment's Redis.
func (d *deployment) redisClient() *redis.Client {
	d.Helper()
	options, err := redis.ParseURL(d.redisURL)
	if err != nil {
		d.Fatal(err)
	}
	client := redis.NewClient(options)
	d.Cleanup(func() { _ = client.Close() })
	return client
}

// asynqPauses pauses a partition's queue as asynq's tools do.
func (d *deployment) asynqPauses(partition int) {
	d.Helper()
	key := fmt.Sprintf("asynq:{push-%d}:paused", partition)
	if err := d.redisClient().Set(context.WithoutCancel(d.Context()), key, time.Now().Unix(), 0).Err(); err != nil {
		d.Fatal(err)
	}
}

// rewritePolicy replaces the file of the policy.
func (d *deployment) rewritePolicy(text string) {
	d.Helper()
	if err := processtest.ReplaceFile(d.policy, text); err != nil {
		d.Fatal(err)
	}
}

// withoutChat is a policy that lacks a category of the usual one.
const withoutChat = "version: 1\ncategories:\n  default: {}\n"

// machines are the cases in which a process, a store, a clock or a file is at fault.
func machines() []*night {
	return []*night{
		{
			title: "A process refused its policy",
			trouble: func(d *deployment) {
				d.behind(`,"category":"chat"`)
				d.rewritePolicy("version: 1\ncategories:\n  default: {}\n  chat: {limits: [{max: 0, per: 1s}]}\n")
			},
			alerts: []string{"PacerPolicyRefused"},
			do:     "Go to [PacerPolicyRefused](#pacerpolicyrefused).",
		},
		{
			title: "The new policy lacks a category for which something waits",
			trouble: func(d *deployment) {
				d.behind(`,"category":"chat"`)
				d.rewritePolicy(withoutChat)
			},
			alerts: []string{"PacerPolicyRefused"},
			do:     "Go to [PacerPolicyRefused](#pacerpolicyrefused).",
		},
		{
			title: "Processes have different policies",
			trouble: func(d *deployment) {
				d.behind(`,"category":"chat"`)
				d.policy = d.file("other.yaml", "version: 1\ncategories:\n  default: {}\n  chat: {limits: [{max: 1, per: 2h}]}\n")
				d.start("ops")
			},
			alerts: []string{"PacerPoliciesDiffer"},
			do:     "Go to [PacerPoliciesDiffer](#pacerpoliciesdiffer).",
		},
		{
			title:     "No worker is alive",
			processes: []string{"api,ops", "worker,ops"},
			trouble: func(d *deployment) {
				d.processes[1].kill()
				d.post("n1", "")
			},
			alerts: []string{"PacerNoWorker", "PacerProcessGone", "PacerStalls"},
			do:     "Go to [PacerNoWorker](#pacernoworker).",
		},
		{
			title: "A worker hangs", slow: true,
			processes: []string{"api,worker,ops", "worker,ops"},
			trouble: func(d *deployment) {
				d.signal(d.processes[1], syscall.SIGSTOP)
				d.post("n1", "")
			},
			alerts: []string{"PacerProcessGone"},
			do:     "Go to [PacerProcessGone](#pacerprocessgone).",
		},
		redisFrozen(), redisAway(), redisFull(), redisEvicts(), postgresSlow(), postgresAway(), postgresLocked(),
		redisClock(),
	}
}
