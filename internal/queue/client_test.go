package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/redistest"
)

// Whatever may stand in ids and names comes out of the queue as it went in.
func TestTicksArriveAsTheyWere(t *testing.T) {
	t.Parallel()
	conn := redistest.Client(t)
	var ticks []dispatch.Tick
	for lane, box := range []dispatch.Mailbox{
		{UserID: "u-1", Category: "chat"},
		{UserID: "{push-0}:asynq:*", Category: "a.b_c-d"},
		{UserID: `"\u0000<&>` + "\u2028\u00a0", Category: "default"},
		{UserID: "пользователь 🙂 " + strings.Repeat("x", 200), Category: strings.Repeat("c", 64)},
	} {
		box.Lane = lane
		ticks = append(ticks, dispatch.Tick{ID: "n-" + strconv.Itoa(lane), Mailbox: box}, dispatch.Tick{ID: strings.Repeat("A.b_c:d-", 8), Mailbox: box})
	}
	enqueue(t, conn, ticks...)
	arrived := make(chan dispatch.Tick, len(ticks))
	serve(t, conn, queue.ServerConfig{Lanes: 4}, func(_ context.Context, tick dispatch.Tick) error {
		arrived <- tick
		return nil
	})
	got := map[dispatch.Tick]int{}
	for range ticks {
		got[receive(t, "a tick", arrived)]++
	}
	want := map[dispatch.Tick]int{}
	for _, tick := range ticks {
		want[tick]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ticks differ (-want +got):\n%s", diff)
	}
}

// A task carries no content, its retry budget is off, and one run of it is bounded.
func TestTaskOfATick(t *testing.T) {
	t.Parallel()
	conn := redistest.Client(t)
	enqueue(t, conn, tickIn(3, "n-1"))
	info := inspect(t, conn, 3, "n-1")
	type task struct {
		Type, Payload, Queue string
		MaxRetry             int
		Timeout, Retention   time.Duration
		Deadline             time.Time
		State                string
	}
	want := task{
		Type: "pacer:tick", Payload: `{"v":1,"u":"u-1","c":"chat"}`, Queue: "push-3", MaxRetry: math.MaxInt32,
		Timeout: 5 * time.Minute, State: "pending",
	}
	got := task{
		info.Type, string(info.Payload), info.Queue, info.MaxRetry, info.Timeout, info.Retention, info.Deadline, info.State.String(),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("task differs (-want +got):\n%s", diff)
	}
}

// What a batch puts into the queue is what asynq's own client would, byte by byte.
func TestEnqueueDoesAsAsynqDoes(t *testing.T) {
	t.Parallel()
	ours, theirs := redistest.Client(t), redistest.Client(t)
	var alarms []dispatch.Alarm
	client := asynq.NewClientFromRedisClient(theirs)
	for i := range 300 {
		tick := dispatch.Tick{ID: fmt.Sprintf("n-%d", i), Mailbox: dispatch.Mailbox{Lane: i % 2, UserID: strings.Repeat("ü", i%120+1), Category: "chat"}}
		a := dispatch.Alarm{Tick: tick, After: time.Duration(i%3) * time.Hour}
		alarms = append(alarms, a, a) // twice is once
		body := fmt.Sprintf(`{"v":1,"u":%q,"c":"chat"}`, tick.UserID)
		options := []asynq.Option{
			asynq.Queue(dispatch.LaneName(tick.Lane)), asynq.TaskID(tick.ID), asynq.MaxRetry(math.MaxInt32), asynq.Timeout(5 * time.Minute),
		}
		if a.After > 0 {
			options = append(options, asynq.ProcessIn(a.After))
		}
		if _, err := client.Enqueue(asynq.NewTask("pacer:tick", []byte(body)), options...); err != nil {
			t.Fatal(err)
		}
	}
	if err := queue.NewClient(ours).Enqueue(t.Context(), alarms...); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(contents(t, theirs), contents(t, ours)); diff != "" {
		t.Errorf("the queues differ (-asynq +pacer):\n%s", diff)
	}
}

// contents of all keys of asynq, but for the moments at which they were written.
func contents(t *testing.T, conn redis.UniversalClient) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, key := range conn.Keys(t.Context(), "asynq:*").Val() {
		switch kind := conn.Type(t.Context(), key).Val(); kind {
		case "hash":
			fields := conn.HGetAll(t.Context(), key).Val()
			if since := fields["pending_since"]; (len(since) == 19) != (fields["state"] == "pending") {
				t.Errorf("%s, %s, is pending since %q", key, fields["state"], since)
			}
			delete(fields, "pending_since")
			all[key] = fields
		case "list":
			members := conn.LRange(t.Context(), key, 0, -1).Val()
			slices.Sort(members) // several batches of a lane come in any order
			all[key] = members
		case "set":
			members := conn.SMembers(t.Context(), key).Val()
			slices.Sort(members)
			all[key] = members
		case "zset":
			hours := map[string]float64{}
			for _, z := range conn.ZRangeWithScores(t.Context(), key, 0, -1).Val() {
				hours[fmt.Sprint(z.Member)] = math.Round(time.Until(time.Unix(int64(z.Score), 0)).Hours())
			}
			all[key] = hours
		default:
			t.Errorf("%s is a %s", key, kind)
		}
	}
	return all
}

// A tick is there once, wherever it is: asking for it again changes nothing and is no fault.
func TestTickThatIsThereAlready(t *testing.T) {
	t.Parallel()
	conn := redistest.Client(t)
	client := queue.NewClient(conn)
	tick := tickIn(0, "n-1")
	again := func(what string) {
		t.Helper()
		before := look(t, conn, 0)
		for _, after := range []time.Duration{0, time.Hour} {
			if err := client.Enqueue(t.Context(), dispatch.Alarm{Tick: tick, After: after}); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		if diff := cmp.Diff(before, look(t, conn, 0)); diff != "" {
			t.Errorf("%s, enqueueing it again changes (-before +after):\n%s", what, diff)
		}
	}
	enqueue(t, conn, tick)
	again("pending")
	running, release := make(chan struct{}), make(chan error)
	serve(t, conn, queue.ServerConfig{Lanes: 1}, func(context.Context, dispatch.Tick) error {
		running <- struct{}{}
		return <-release
	})
	receive(t, "the tick", running)
	again("active")
	release <- &dispatch.DeferralError{Until: time.Now().Add(time.Hour)}
	await(t, "it is deferred", func() bool { return look(t, conn, 0).Retry != nil })
	again("deferred")
	if err := client.Enqueue(t.Context(), dispatch.Alarm{Tick: tickIn(0, "n-2"), After: time.Hour}); err != nil {
		t.Fatal(err)
	}
	tick = tickIn(0, "n-2")
	again("scheduled")
}

// A tick of which only the hash is left, since the key with its place was lost, is put in anew, and once.
func TestTickThatLostItsPlace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state, lost string
		before      func(t *testing.T, conn redis.UniversalClient)
	}{
		"Pending": {"pending", "pending", nil},
		"PendingBeforeOthers": {"pending", "pending", func(t *testing.T, conn redis.UniversalClient) {
			t.Helper()
			enqueue(t, conn, tickIn(0, "n-2"))
		}},
		"Scheduled": {"scheduled", "scheduled", nil},
		"Retry":     {"retry", "retry", nil},
		"Active":    {"active", "lease", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := redistest.Client(t)
			tick := tickIn(0, "n-1")
			enqueue(t, conn, tick)
			pipe := conn.Pipeline()
			pipe.HSet(t.Context(), "asynq:{push-0}:t:n-1", "state", c.state)
			pipe.Del(t.Context(), "asynq:{push-0}:pending")
			pipe.Del(t.Context(), "asynq:{push-0}:"+c.lost)
			if _, err := pipe.Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := where{Pending: []string{"n-1"}}
			if c.before != nil {
				c.before(t, conn)
				want.Pending = append(want.Pending, "n-2")
			}
			alarm := dispatch.Alarm{Tick: tick}
			for range 2 {
				if err := queue.NewClient(conn).Enqueue(t.Context(), alarm, alarm); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(want, look(t, conn, 0)); diff != "" {
				t.Errorf("the queue differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEnqueueTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := queue.NewClient(redistest.Client(t)).Enqueue(ctx, dispatch.Alarm{Tick: tickIn(7, "n-1")})
	if !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "enqueue tick n-1 into push-7: ") {
		t.Errorf("Enqueue gives %v, want the cause with tick and lane", err)
	}
	if err != nil && strings.Contains(err.Error(), "u-1") {
		t.Errorf("the error names the user: %v", err)
	}
}

// What is in a lane and is no tick of this version is put aside at its first sight, with the reason, and no handler is
// asked; what lies behind it goes on.
func TestForeignTasksAreArchived(t *testing.T) {
	t.Parallel()
	conn := redistest.Client(t)
	good := []byte(`{"v":1,"u":"u-1","c":"chat"}`)
	foreign := map[string]struct {
		task   *asynq.Task
		reason string
	}{
		"another-type":    {asynq.NewTask("email:deliver", good), `read task another-type: its type is "email:deliver", not "pacer:tick"`},
		"no-payload":      {asynq.NewTask("pacer:tick", nil), "read the payload of task no-payload: unexpected end of JSON input"},
		"no-json":         {asynq.NewTask("pacer:tick", []byte("\x00\x01")), `read the payload of task no-json: invalid character '\x00' looking for beginning of value`},
		"no-object":       {asynq.NewTask("pacer:tick", []byte(`[1]`)), "read the payload of task no-object: json: cannot unmarshal array into Go value of type queue.payload"},
		"no-version":      {asynq.NewTask("pacer:tick", []byte(`{"u":"u-1","c":"chat"}`)), "task no-version has payload version 0, this program knows 1"},
		"a-later-version": {asynq.NewTask("pacer:tick", []byte(`{"v":2,"u":"u-1"}`)), "task a-later-version has payload version 2, this program knows 1"},
		"very-long":       {asynq.NewTask("pacer:tick", []byte(`{"v":1,"u":"`+strings.Repeat("x", 1<<20))), "read the payload of task very-long: unexpected end of JSON input"},
	}
	client := asynq.NewClientFromRedisClient(conn)
	for id, f := range foreign {
		if _, err := client.Enqueue(f.task, asynq.Queue("push-0"), asynq.TaskID(id), asynq.MaxRetry(25)); err != nil {
			t.Fatal(err)
		}
	}
	enqueue(t, conn, tickIn(0, "n-1"))
	arrived := make(chan string, len(foreign)+1)
	serve(t, conn, queue.ServerConfig{Lanes: 1}, func(_ context.Context, tick dispatch.Tick) error {
		arrived <- tick.ID
		return nil
	})
	if id := receive(t, "the tick", arrived); id != "n-1" {
		t.Errorf("the handler was given %s", id)
	}
	await(t, "all others are archived", func() bool { return len(look(t, conn, 0).Archived) == len(foreign) })
	for id, f := range foreign {
		info := inspect(t, conn, 0, id)
		if want := f.reason; info.LastErr != want || info.Retried != 0 {
			t.Errorf("task %s was tried again %d times and says\n%s, want\n%s", id, info.Retried, info.LastErr, want)
		}
	}
	if len(arrived) != 0 {
		t.Errorf("the handler was given %s too", <-arrived)
	}
}

// The same on the connection that the programs use, which puts what many goroutines send into one pipeline.
func TestOverASharedPipeline(t *testing.T) {
	t.Parallel()
	options := redis.DefaultBlockingAutoPipelineOptions()
	options.FullDuplex = true
	conn, err := redistest.Client(t).AutoPipelineWithOptions(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	const lanes, perLane = 3, 40
	var seen set
	serve(t, conn, queue.ServerConfig{Lanes: lanes}, func(_ context.Context, tick dispatch.Tick) error {
		seen.add(tick.ID)
		if tick.UserID == "deferred" {
			return &dispatch.DeferralError{Until: time.Now().Add(time.Hour)}
		}
		return nil
	})
	var want []string
	deferred := map[int][]string{}
	for lane := range lanes {
		for i := range perLane {
			tick := tickIn(lane, strconv.Itoa(lane)+"-"+strconv.Itoa(100+i))
			if i%2 == 0 {
				tick.UserID = "deferred"
				deferred[lane] = append(deferred[lane], tick.ID)
			}
			want = append(want, tick.ID)
			enqueue(t, conn, tick)
		}
	}
	for lane := range lanes {
		await(t, "each tick of a lane is done or deferred", func() bool {
			return cmp.Equal(look(t, conn, lane), where{Retry: deferred[lane]})
		})
		wantUncounted(t, conn, lane)
	}
	if diff := cmp.Diff(want, seen.sorted()); diff != "" {
		t.Errorf("ticks handled (-want +got):\n%s", diff)
	}
}
