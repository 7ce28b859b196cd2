package queue_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/test/redistest"
)

// The tests of this file fail when another version of asynq keeps its queues otherwise than this package writes them:
// see docs/adr/0013.

// users have names of any kind and length.
var users = []string{
	"u-1", "{push-0}:asynq:*", `"<&>` + "\u2028", "пользователь 🙂", strings.Repeat("x", 127), strings.Repeat("y", 128),
	strings.Repeat("z", 300),
}

// What the scripts of the agendas put into a queue is what asynq's own client would, byte by byte.
func TestWakeupsAreTasksOfAsynq(t *testing.T) {
	t.Parallel()
	for name, engine := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, theirs := engine(t), engine(t)
			client := asynq.NewClientFromRedisClient(theirs)
			for i, user := range users {
				partition, later := i%3, time.Now().Add(time.Duration(i)*time.Hour)
				options := []asynq.Option{
					asynq.Queue(queue.PartitionName(partition)), asynq.TaskID(user), asynq.MaxRetry(math.MaxInt32),
					asynq.Timeout(5 * time.Minute),
				}
				if i < 4 {
					pushPending(t, ours, partition, user)
				} else {
					schedule(t, ours, partition, user, later)
					options = append(options, asynq.ProcessAt(later))
				}
				if _, err := client.Enqueue(asynq.NewTask("pacer:wakeup", nil), options...); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(contents(t, theirs), contents(t, ours)); diff != "" {
				t.Errorf("the queues differ (-asynq +pacer):\n%s", diff)
			}
		})
	}
}

// Taking and acknowledging a wake-up leaves what asynq's own server leaves, counts included, while the task is active
// and afterwards.
func TestWakeupsAreWorkedLikeTasksOfAsynq(t *testing.T) {
	t.Parallel()
	ours, theirs := redistest.Client(t), redistest.Client(t)
	all := users[:5]
	for _, user := range all {
		pushPending(t, ours, 0, user)
		pushPending(t, theirs, 0, user)
	}
	working, release := make(chan string), make(chan struct{})
	server := asynq.NewServerFromRedisClient(theirs, asynq.Config{
		Concurrency: 1, Queues: map[string]int{"push-0": 1}, TaskCheckInterval: 2 * time.Millisecond,
		LogLevel: asynq.FatalLevel,
	})
	err := server.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		working <- task.Type()
		<-release
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	for i, user := range all {
		receive(t, "asynq to take a task", working)
		if got := pull(t, ours, 0, 1); !slices.Equal(got, []string{user}) {
			t.Fatalf("%q is taken, want %q", got, user)
		}
		if diff := cmp.Diff(contents(t, theirs), contents(t, ours)); diff != "" {
			t.Errorf("while the %d. task is at work the queues differ (-asynq +pacer):\n%s", i+1, diff)
		}
		release <- struct{}{}
		finish(t, ours, 0, user)
	}
	inspector := inspectorOf(t, theirs, 1)
	await(t, "asynq has used all up", func() bool {
		info, err := inspector.GetQueueInfo("push-0")
		return err == nil && info.Size == 0 && info.ProcessedTotal == len(all)
	})
	if diff := cmp.Diff(contents(t, theirs), contents(t, ours)); diff != "" {
		t.Errorf("afterwards the queues differ (-asynq +pacer):\n%s", diff)
	}
}

// A wake-up that was active in a process that died comes again when its lease has ended, and no retry is counted. That
// is asynq's own recovery, the last resort when nothing else repairs the wake-up.
func TestAsynqRecoversWhatWasAtWork(t *testing.T) {
	t.Parallel()
	conn := redistest.Client(t)
	pushPending(t, conn, 0, "u-1", "u-2")
	pull(t, conn, 0, 2)
	// Time goes by: asynq takes a task back when its lease ended half a minute ago.
	if n, err := conn.ZIncrBy(t.Context(), "asynq:{push-0}:lease", -100, "u-1").Result(); err != nil || n == 0 {
		t.Fatalf("move the lease: %f, %v", n, err)
	}
	server := serve(t, conn, queue.ServerConfig{Partitions: 1})
	receive(t, "the wake-up to be pending again", server.Pending(0))
	want := where{Pending: []string{"u-1"}, Active: []string{"u-2"}, Leased: []string{"u-2"}}
	if diff := cmp.Diff(want, look(t, conn, 0)); diff != "" {
		t.Errorf("the queue holds (-want +got):\n%s", diff)
	}
	info, err := inspectorOf(t, conn, 1).GetTaskInfo("push-0", "u-1")
	if err != nil || info.Retried != 0 || info.MaxRetry != math.MaxInt32 {
		t.Errorf("it is %+v, %v", info, err)
	}
	reply := run(t, conn, 0, `local id = pop_pending(1)[1]
local message = message_of(id)
make_active({ id })
return is_wakeup(message) and 1 or 0`)
	if reply != int64(1) {
		t.Error("it is no wake-up any more")
	}
	if failed := conn.Keys(t.Context(), "asynq:{push-0}:failed*").Val(); len(failed) != 0 {
		t.Errorf("failures are counted in %v", failed)
	}
}

// asynq's own server never gets a task, however long the task is in the queue.
func TestAsynqsServerWorksNothing(t *testing.T) {
	t.Parallel()
	conn := redistest.Client(t)
	server := serve(t, conn, queue.ServerConfig{Partitions: 2})
	for range 5 {
		pushPending(t, conn, 1, "u-1")
		receive(t, "a signal", server.Pending(1))
	}
	<-time.After(200 * time.Millisecond) // asynq would look every 10 ms
	want := where{Pending: []string{"u-1", "u-1", "u-1", "u-1", "u-1"}}
	if diff := cmp.Diff(want, look(t, conn, 1)); diff != "" {
		t.Errorf("the queue holds (-want +got):\n%s", diff)
	}
}

// asynq's tools see one server, with all queues and its concurrency.
func TestServerIsShown(t *testing.T) {
	t.Parallel()
	conn := redistest.Client(t)
	serve(t, conn, queue.ServerConfig{Partitions: 5, Concurrency: 100})
	inspector := asynq.NewInspectorFromRedisClient(conn)
	var servers []*asynq.ServerInfo
	await(t, "the server has written what it is", func() bool {
		var err error
		servers, err = inspector.Servers()
		return err == nil && len(servers) > 0
	})
	if len(servers) != 1 || servers[0].Concurrency != 100 || len(servers[0].Queues) != 5 ||
		servers[0].Queues["push-4"] != 1 {
		t.Errorf("the servers are %+v", servers)
	}
	await(t, "the queues are known", func() bool {
		queues, err := inspector.Queues()
		return err == nil && len(queues) == 5
	})
}

// A task that is not a wake-up is archived for people to look at, as asynq would archive it.
func TestForeignTasksAreArchived(t *testing.T) {
	t.Parallel()
	conn := redistest.Client(t)
	client := asynq.NewClientFromRedisClient(conn)
	for id, task := range map[string]*asynq.Task{
		"email": asynq.NewTask("email:deliver", []byte("content")),
		"long":  asynq.NewTask("x", []byte(strings.Repeat("x", 1<<20))),
	} {
		if _, err := client.Enqueue(task, asynq.Queue("push-0"), asynq.TaskID(id), asynq.MaxRetry(25)); err != nil {
			t.Fatal(err)
		}
	}
	pushPending(t, conn, 0, "u-1")
	conn.HSet(t.Context(), "asynq:{push-0}:t:odd", "msg", "\xff\xff", "state", "pending")
	conn.LPush(t.Context(), "asynq:{push-0}:pending", "odd")
	server := serve(t, conn, queue.ServerConfig{Partitions: 1})
	found, _ := run(t, conn, 0, `local found = {}
for _, id in ipairs(pop_pending(9)) do
  local message = message_of(id)
  make_active({ id })
  if not is_wakeup(message) then found[#found + 1] = id found[#found + 1] = message end
end
return found`).([]any)
	if len(found) != 6 {
		t.Fatalf("%d are no wake-ups, want 3", len(found)/2)
	}
	reason := context.DeadlineExceeded // any
	for i := 0; i < len(found); i += 2 {
		id, _ := found[i].(string)
		message, _ := found[i+1].(string)
		for range 2 { // twice is once
			if err := server.Archive(t.Context(), 0, dispatch.Task{ID: id, Message: message}, reason); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := where{Active: []string{"u-1"}, Leased: []string{"u-1"}, Archived: []string{"email", "long", "odd"}}
	if diff := cmp.Diff(want, look(t, conn, 0)); diff != "" {
		t.Errorf("the queue holds (-want +got):\n%s", diff)
	}
	conn.ZRem(t.Context(), "asynq:{push-0}:archived", "odd") // which asynq can't read
	archived, err := inspectorOf(t, conn, 1).ListArchivedTasks("push-0")
	if err != nil || len(archived) != 2 {
		t.Fatalf("asynq shows %d archived tasks, %v", len(archived), err)
	}
	for _, task := range archived {
		if !strings.HasPrefix(task.LastErr, reason.Error()+": its type is") || task.LastFailedAt.IsZero() ||
			task.Retried != 0 {
			t.Errorf("it shows %+v", task)
		}
	}
}
