package queue_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/test/redistest"
)

// reconcile has the named partitions rest, and no others, and gives those that are stopped from outside.
func reconcile(t *testing.T, client *queue.Client, partitions int, resting ...int) (outside []int) {
	t.Helper()
	found, err := client.Reconcile(t.Context(), partitions, func(partition int) bool { return slices.Contains(resting, partition) })
	if err != nil || len(found) != partitions {
		t.Fatalf("%d of %d partitions are known, %v", len(found), partitions, err)
	}
	for _, rest := range found {
		if rest.Outside {
			outside = append(outside, rest.Partition)
			if age := time.Since(rest.Since); age < -time.Minute || age > time.Minute {
				t.Errorf("partition %d is stopped for %s", rest.Partition, age)
			}
		}
	}
	return outside
}

// Whatever a queue is found in, it is afterwards as it should be; a pause of asynq's tools stays until it is taken over or
// ended.
func TestQueuesAreReconciled(t *testing.T) {
	t.Parallel()
	conn := redistest.Client(t)
	const partitions = 3
	client, inspector := queue.NewClient(conn), inspectorOf(t, conn, partitions)
	paused := func(want ...int) {
		t.Helper()
		for partition := range partitions {
			info, err := inspector.GetQueueInfo("push-" + string(rune('0'+partition)))
			if err != nil || info.Paused != slices.Contains(want, partition) {
				t.Errorf("partition %d is paused: %t, %v", partition, info != nil && info.Paused, err)
			}
		}
	}
	steps := []struct {
		what    string
		before  func() error
		resting []int
		outside []int
		paused  []int
	}{
		{"nothing rests", nil, nil, nil, nil},
		{"one is to rest", nil, []int{1}, nil, []int{1}},
		{"it goes on resting", nil, []int{1}, nil, []int{1}},
		{"asynq's tools let it go on", func() error { return inspector.UnpauseQueue("push-1") }, []int{1}, nil, []int{1}},
		{"it is to rest no more", nil, nil, nil, nil},
		{"asynq's tools stop one", func() error { return inspector.PauseQueue("push-2") }, nil, []int{2}, []int{2}},
		{"it stays so", nil, nil, []int{2}, []int{2}},
		{"it is taken over", nil, []int{2}, nil, []int{2}},
		{"and ended", nil, nil, nil, nil},
		{"asynq's tools stop one again", func() error { return inspector.PauseQueue("push-0") }, []int{1}, []int{0}, []int{0, 1}},
		{"and let it go on", func() error { return inspector.UnpauseQueue("push-0") }, []int{1}, nil, []int{1}},
		{"the whole of Redis was lost", func() error {
			return conn.Del(t.Context(), "asynq:{push-0}:paused", "asynq:{push-1}:paused").Err()
		}, []int{1, 2}, nil, []int{1, 2}},
	}
	for _, step := range steps {
		if step.before != nil {
			if err := step.before(); err != nil {
				t.Fatalf("%s: %v", step.what, err)
			}
		}
		if outside := reconcile(t, client, partitions, step.resting...); !slices.Equal(outside, step.outside) {
			t.Errorf("%s: stopped from outside are %v, want %v", step.what, outside, step.outside)
		}
		paused(step.paused...)
		if t.Failed() {
			t.Fatalf("at: %s", step.what)
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
			t.Errorf("it was stopped: %t, %v; want %t", was, err, want)
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
		t.Errorf("still stopped: %v", outside)
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
		rest := slices.DeleteFunc(slices.Clone(cmds), r.about)
		err := next(ctx, rest)
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
	return slices.ContainsFunc(cmd.Args(), func(arg any) bool { text, _ := arg.(string); return strings.Contains(text, r.key) })
}

// A partition whose part of Redis is away keeps no other from being reconciled.
func TestEachQueueIsReconciledByItself(t *testing.T) {
	t.Parallel()
	conn := redistest.Client(t)
	broken := redis.NewClient(conn.Options())
	t.Cleanup(func() { _ = broken.Close() })
	broken.AddHook(refusing{"{push-1}"})
	found, err := queue.NewClient(broken).Reconcile(t.Context(), 3, func(int) bool { return true })
	if !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "partition 1") || len(found) != 2 || found[0].Partition != 0 || found[1].Partition != 2 {
		t.Errorf("known are %+v, %v", found, err)
	}
	for partition, want := range map[string]int64{"0": 1, "1": 0, "2": 1} {
		if n := conn.Exists(t.Context(), "asynq:{push-"+partition+"}:paused").Val(); n != want {
			t.Errorf("the queue of partition %s is stopped: %d, want %d", partition, n, want)
		}
	}
}
