package night_test

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/test/processtest"
	"github.com/pacer-notify/pacer/test/providertest"
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

// machines are the cases in which a process, a store, a clock or a file is at fault.
func machines() []*night {
	return []*night{
		policyRefused(), policiesDiffer(), workerDead(), workerStands(), crashLoop(),
		redisFrozen(), redisAway(), redisFull(),
		redisEvicts(), postgresSlow(), postgresAway(), postgresLocked(), redisClock(),
	}
}

func policyRefused() *night {
	return &night{
		title: "A process refused its policy", happens: "The policy file was changed, and has a fault.",
		trouble: func(d *deployment) {
			d.post("n0", `,"category":"chat"`)
			d.is("n0", "delivered")
			d.post("n1", `,"category":"chat"`)
			d.rewritePolicy("version: 1\ncategories:\n  default: {}\n  chat: {limits: [{max: 0, per: 1s}]}\n")
		},
		user:    "chat: 1 deferred; first n1: deferred by limit 1/1h, goes out at TIME",
		explain: "deferred by limit 1/1h, goes out at TIME",
		dashboard: []string{
			"PROCESS refused its policy file DURATION ago and keeps version VERSION: FILE:4:25: categories.chat.limits[0].max: must be between 1 and 1000000, is 0.",
			"Most deferred: ada, chat, 1",
		},
		alerts: []string{"PacerPolicyRefused"},
		do:     "`dispatcher policy check FILE` finds every fault. Running processes take the corrected file up at once.",
	}
}

func policiesDiffer() *night {
	return &night{
		title: "Processes have different policies", happens: "A new policy was rolled out to one of two processes.",
		trouble: func(d *deployment) {
			d.post("n0", `,"category":"chat"`)
			d.is("n0", "delivered")
			d.post("n1", `,"category":"chat"`)
			d.policy = d.file("other.yaml", "version: 1\ncategories:\n  default: {}\n  chat: {limits: [{max: 1, per: 2h}]}\n")
			d.start("ops")
		},
		user:    "chat: 1 deferred; first n1: deferred by limit 1/1h, goes out at TIME",
		explain: "deferred by limit 1/1h, goes out at TIME",
		dashboard: []string{
			"Processes have different policies in force: version VERSION on PROCESS; version VERSION on PROCESS.",
			"Most deferred: ada, chat, 1",
		},
		alerts: []string{"PacerPoliciesDiffer"},
		do:     "Roll the policy out everywhere. `dispatcher policy show` names who has which.",
	}
}

func workerDead() *night {
	return &night{
		title: "No worker is alive", happens: "The only process with the worker role was killed.",
		processes: []string{"api,ops", "worker,ops"},
		trouble: func(d *deployment) {
			d.processes[1].kill()
			d.post("n1", "")
		},
		user:    "no worker is alive: nothing goes out until one is started. default: 1 queued; first n1: waits for a worker, and no worker is alive",
		explain: "waits for a worker, and no worker is alive",
		dashboard: []string{
			"No worker is alive: nothing is delivered.",
			"Gone without stopping: PROCESS (missed DURATION ago). It died, hangs, or can't reach Redis.",
		},
		alerts: []string{"PacerNoWorker", "PacerProcessGone", "PacerStalls"},
		do:     "Start the workers. What waits is safe in the stores.",
	}
}

func workerStands() *night {
	return &night{
		title: "A worker is gone", happens: "One of two workers stands still.",
		processes: []string{"api,worker,ops", "worker,ops"},
		trouble: func(d *deployment) {
			d.signal(d.processes[1], syscall.SIGSTOP)
			d.post("n1", "")
		},
		user:    "nothing waits, and nothing holds this user's notifications back",
		explain: "delivered",
		dashboard: []string{
			"Gone without stopping: PROCESS (missed DURATION ago). It died, hangs, or can't reach Redis.",
		},
		alerts: []string{"PacerProcessGone"},
		do:     "Restart it; save `/debug/pprof/goroutine?debug=1` of it before, if it responds. Others deliver its notifications.",
	}
}

func crashLoop() *night {
	return &night{
		title: "A notification ends its workers", happens: "Three times a worker died while it sent the same notification.",
		slow: true, processes: []string{"api,ops"},
		trouble: func(d *deployment) {
			d.receiver.Follow(hangs)
			d.post("n1", "")
			for times := range 3 {
				worker := d.start("worker,ops")
				d.await("a worker sends it", func() bool { return len(d.receiver.Calls(providertest.Called)) > times })
				worker.kill()
			}
			d.start("worker,ops")
			d.is("n1", "failed")
		},
		user:    "last ended: n1, failed: crash_loop",
		explain: "failed: crash_loop",
		dashboard: []string{
			"Gone without stopping: PROCESS (missed DURATION ago), PROCESS (missed DURATION ago), PROCESS (missed DURATION ago). It died, hangs, or can't reach Redis.",
			"Failed 1, expired 0 (failed: crash_loop)",
		},
		alerts: []string{"PacerClaimsExpire", "PacerCrashLoop", "PacerProcessGone"},
		do:     "Look into the logs of the processes that ended. Do not retry it before you know why.",
	}
}
