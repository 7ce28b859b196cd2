package queue_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/test/redistest"
)

// reconcile pauses the named partitions and no others, and returns those that are paused from outside.
func reconcile(t *testing.T, client *queue.Client, partitions int, paused ...int) (outside []int) {
	t.Helper()
	shouldPause := func(partition int) bool { return slices.Contains(paused, partition) }
	states, err := client.Reconcile(t.Context(), partitions, shouldPause)
	if err != nil || len(states) != partitions {
		t.Fatalf("the states of %d of %d partitions are known, %v", len(states), partitions, err)
	}
	for _, state := range states {
		if state.Outside {
			outside = append(outside, state.Partition)
			if age := time.Since(state.Since); age < -time.Minute || age > time.Minute {
				t.Errorf("partition %d has been paused for %s", state.Partition, age)
			}
		}
	}
	return outside
}

// Whatever Reconcile finds, each queue is as it should be afterwards. A pause of asynq's tools stays until pacer takes
// it over, or somebody ends it.
func TestQueuesAreReconciled(t *testing.T) {
	t.Parallel()
	conn := redistest.Client(t)
	const partitions = 3
	client, inspector := queue.NewClient(conn), inspectorOf(t, conn, partitions)
	lost := func() error {
		return conn.Del(t.Context(), "asynq:{push-0}:paused", "asynq:{push-1}:paused").Err()
	}
	asynqPauses := func(queue string) func() error { return func() error { return inspector.PauseQueue(queue) } }
	asynqResumes := func(queue string) func() error { return func() error { return inspector.UnpauseQueue(queue) } }
	steps := []struct {
		name    string
		before  func() error
		pause   []int // what pacer should pause
		outside []int // what was paused from outside
		paused  []int // what is paused afterwards
	}{
		{name: "nothing is to be paused"},
		{name: "one is to be paused", pause: []int{1}, paused: []int{1}},
		{name: "it stays paused", pause: []int{1}, paused: []int{1}},
		{name: "asynq's tools resume it", before: asynqResumes("push-1"), pause: []int{1}, paused: []int{1}},
		{name: "it is to be resumed"},
		{name: "asynq's tools pause one", before: asynqPauses("push-2"), outside: []int{2}, paused: []int{2}},
		{name: "that one stays paused", outside: []int{2}, paused: []int{2}},
		{name: "pacer pauses it too", pause: []int{2}, paused: []int{2}},
		{name: "pacer resumes it"},
		{
			name: "asynq's tools pause another", before: asynqPauses("push-0"),
			pause: []int{1}, outside: []int{0}, paused: []int{0, 1},
		},
		{name: "asynq's tools resume it again", before: asynqResumes("push-0"), pause: []int{1}, paused: []int{1}},
		{name: "the whole of Redis was lost", before: lost, pause: []int{1, 2}, paused: []int{1, 2}},
	}
	for _, step := range steps {
		if step.before != nil {
			if err := step.before(); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
		}
		if outside := reconcile(t, client, partitions, step.pause...); !slices.Equal(outside, step.outside) {
			t.Errorf("%s: paused from outside are %v, want %v", step.name, outside, step.outside)
		}
		for partition := range partitions {
			info, err := inspector.GetQueueInfo(queue.PartitionName(partition))
			if err != nil || info.Paused != slices.Contains(step.paused, partition) {
				t.Errorf("%s: partition %d is paused: %t, %v", step.name, partition, info != nil && info.Paused, err)
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
}

func TestResumeEndsAnyPause(t *testing.T) {
	t.Parallel()
	conn := redistest.Client(t)
	client := queue.NewClient(conn)
	inspector := inspectorOf(t, conn, 1)
	resume := func(want bool) {
		t.Helper()
		if was, err := client.Resume(t.Context(), 0); was != want || err != nil {
			t.Errorf("it was paused: %t, %v; want %t", was, err, want)
		}
	}
	resume(false)
	reconcile(t, client, 1, 0)
	resume(true)
	if err := inspector.PauseQueue("push-0"); err != nil {
		t.Fatal(err)
	}
	resume(true)
	resume(false)
	if outside := reconcile(t, client, 1); outside != nil {
		t.Errorf("still paused: %v", outside)
	}
}

// refusing is a connection on which commands about one key fail.
type refusing struct{ key string }

var errRefused = errors.New("CLUSTERDOWN the cluster is down")

// DialHook implements [redis.Hook].
func (refusing) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (r refusing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if r.about(cmd) {
			cmd.SetErr(errRefused)
			return errRefused
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (r refusing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, slices.DeleteFunc(slices.Clone(cmds), r.about))
		for _, cmd := range cmds {
			if r.about(cmd) {
				cmd.SetErr(errRefused)
				err = errRefused
			}
		}
		return err
	}
}

func (r refusing) about(cmd redis.Cmder) bool {
	return slices.ContainsFunc(cmd.Args(), func(arg any) bool {
		text, _ := arg.(string)
		return strings.Contains(text, r.key)
	})
}

// A partition whose part of Redis is away keeps no other from being reconciled.
func TestEachQueueIsReconciledByItself(t *testing.T) {
	t.Parallel()
	conn := redistest.Client(t)
	broken := redis.NewClient(conn.Options())
	t.Cleanup(func() { _ = broken.Close() })
	broken.AddHook(refusing{"{push-1}"})
	states, err := queue.NewClient(broken).Reconcile(t.Context(), 3, func(int) bool { return true })
	if !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "partition 1") {
		t.Errorf("got error %v", err)
	}
	if diff := cmp.Diff([]queue.State{{Partition: 0}, {Partition: 2}}, states); diff != "" {
		t.Errorf("known states differ (-want +got):\n%s", diff)
	}
	for partition, want := range map[string]int64{"0": 1, "1": 0, "2": 1} {
		if n := conn.Exists(t.Context(), "asynq:{push-"+partition+"}:paused").Val(); n != want {
			t.Errorf("the queue of partition %s is paused: %d, want %d", partition, n, want)
		}
	}
}
