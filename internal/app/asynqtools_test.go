package app_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/ops"
)

// asynq's own tools, which are made on its Inspector, show partitions, who waits, and servers, and can pause and
// resume a partition.
func TestAsynqsToolsWork(t *testing.T) {
	t.Parallel()
	d, r := newDeployment(t, onRedis, crowdPolicy, 1), newReceiver(t)
	d.bulk(r.crowd("ada", "slow", 6))
	d.awaitStats("five deferred", func(s stats) bool { return s.Deferred == 5 && s.Totals.Delivered == 1 })
	options, err := redis.ParseURL(d.redisURL)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	inspector := asynq.NewInspectorFromRedisClient(client)

	queues, err := inspector.Queues()
	for deadline := time.Now().Add(patience); err == nil && len(queues) == 0 &&
		time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		queues, err = inspector.Queues()
	}
	if err != nil || len(queues) == 0 ||
		slices.ContainsFunc(queues, func(name string) bool { return !strings.HasPrefix(name, "push-") }) {
		t.Fatalf("the queues are %v, %v", queues, err)
	}
	partition := fmt.Sprintf("push-%d", dispatch.PartitionOf("ada", 4))
	var tasks []*asynq.TaskInfo
	for deadline := time.Now().Add(patience); len(tasks) != 1; <-time.After(50 * time.Millisecond) {
		if tasks, err = inspector.ListScheduledTasks(partition); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d wake-ups are scheduled, want one for the one user who waits", len(tasks))
		}
	}
	if task := tasks[0]; task.ID != "ada" || task.Type != "pacer:wakeup" ||
		time.Until(task.NextProcessAt) < 50*time.Minute || task.Retried != 0 {
		t.Errorf("the wake-up is %+v", task)
	}
	servers, err := inspector.Servers()
	if err != nil || len(servers) == 0 {
		t.Errorf("the servers are %v, %v", servers, err)
	}

	number := strings.TrimPrefix(partition, "push-")
	d.act(d.apps[0], http.StatusOK, ops.Action{Action: "pause", Kind: "partition", Name: number})
	if info, err := inspector.GetQueueInfo(partition); err != nil || !info.Paused || info.Scheduled != 1 {
		t.Errorf("the paused partition is %+v, %v", info, err)
	}
	d.act(d.apps[0], http.StatusOK, ops.Action{Action: "resume", Kind: "partition", Name: number})
	if info, err := inspector.GetQueueInfo(partition); err != nil || info.Paused {
		t.Errorf("the resumed partition is %+v, %v", info, err)
	}

	// What they pause themselves shows, stays, and ends either way.
	pauseThere := func() {
		t.Helper()
		if err := inspector.PauseQueue(partition); err != nil {
			t.Fatal(err)
		}
		s := d.awaitPauses(d.apps[0], 1)
		if p := s.Pauses[0]; p.Kind != "partition" || p.Name != number || p.By != "asynq's tools" ||
			time.Since(p.At).Abs() > time.Minute {
			t.Errorf("the pause is %+v", p)
		}
	}
	pauseThere()
	d.awaitLogs("msg=\"deliveries are paused\" kind=partition name="+number+" by=\"asynq's tools\"", 1)
	d.awaitPage(d.apps[0], "/metrics", `pacer_paused{kind="partition",name="`+number+`"} 1`)
	if err := inspector.UnpauseQueue(partition); err != nil {
		t.Fatal(err)
	}
	d.awaitPauses(d.apps[0], 0)
	pauseThere()
	d.act(d.apps[0], http.StatusOK, ops.Action{Action: "resume", Kind: "partition", Name: number})
	if s := d.snapshot(d.apps[0]); len(s.Pauses) != 0 {
		t.Errorf("after it was resumed the pauses are %+v", s.Pauses)
	}
	d.act(d.apps[0], http.StatusConflict, ops.Action{Action: "resume", Kind: "partition", Name: number})
}
