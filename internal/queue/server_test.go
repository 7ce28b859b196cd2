package queue_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/redistest"
)

// Each lane is served, at once and later.
func TestEveryLaneIsServed(t *testing.T) {
	t.Parallel()
	for _, lanes := range []int{1, 2, 5, 40} {
		t.Run(fmt.Sprintf("%d lanes", lanes), func(t *testing.T) {
			t.Parallel()
			conn := redistest.Client(t)
			client := queue.NewClient(conn)
			var want []string
			for lane := range lanes {
				now, later := "now-"+strconv.Itoa(lane), "later-"+strconv.Itoa(lane)
				enqueue(t, conn, tickIn(lane, now))
				if err := client.Enqueue(t.Context(), dispatch.Alarm{Tick: tickIn(lane, later), After: 400 * time.Millisecond}); err != nil {
					t.Fatal(err)
				}
				if w := look(t, conn, lane); !cmp.Equal(w, where{Pending: []string{now}, Scheduled: []string{later}}) {
					t.Errorf("lane %d holds %+v", lane, w)
				}
				want = append(want, now, later)
			}
			var seen set
			serve(t, conn, queue.ServerConfig{Lanes: lanes}, func(_ context.Context, tick dispatch.Tick) error {
				if strconv.Itoa(tick.Lane) != strings.Split(tick.ID, "-")[1] {
					t.Errorf("tick %s comes from lane %d", tick.ID, tick.Lane)
				}
				seen.add(tick.ID)
				return nil
			})
			await(t, "all ticks have come", func() bool { return seen.size() == len(want) })
			for lane := range lanes {
				await(t, "the lane is empty", func() bool { return cmp.Equal(look(t, conn, lane), where{}) })
			}
			slices.Sort(want)
			if diff := cmp.Diff(want, seen.sorted()); diff != "" {
				t.Errorf("ticks handled (-want +got):\n%s", diff)
			}
		})
	}
}

// asynq's tools see one server, with all lanes and what it may hold.
func TestServerIsShown(t *testing.T) {
	t.Parallel()
	conn := redistest.Client(t)
	serve(t, conn, queue.ServerConfig{Lanes: 5, Held: 100}, func(context.Context, dispatch.Tick) error { return nil })
	var servers []*asynq.ServerInfo
	await(t, "the server has written what it is", func() bool {
		var err error
		servers, err = asynq.NewInspectorFromRedisClient(conn).Servers()
		return err == nil && len(servers) > 0
	})
	if len(servers) != 1 || servers[0].Concurrency != 100 || len(servers[0].Queues) != 5 || servers[0].Queues["push-4"] != 1 {
		t.Errorf("the servers are %+v", servers)
	}
}

func TestHeldBoundsWhatIsAtWork(t *testing.T) {
	t.Parallel()
	conn := redistest.Client(t)
	const held, ticks = 4, 20
	for i := range ticks {
		enqueue(t, conn, tickIn(i%2, strconv.Itoa(i)))
	}
	var inside, most atomic.Int64
	running, release := make(chan struct{}, ticks), make(chan struct{})
	serve(t, conn, queue.ServerConfig{Lanes: 2, Held: held}, func(context.Context, dispatch.Tick) error {
		if n := inside.Add(1); n > most.Load() {
			most.Store(n)
		}
		running <- struct{}{}
		<-release
		inside.Add(-1)
		return nil
	})
	for range held {
		receive(t, "a tick", running)
	}
	for range ticks - held { // each that ends makes room for one more
		release <- struct{}{}
		receive(t, "one more tick", running)
	}
	close(release)
	if most.Load() > held {
		t.Errorf("%d ticks were at work at once, want at most %d", most.Load(), held)
	}
}

// sleepy is a record whose every tick has to wait longer than the test lasts.
type sleepy struct{ asked atomic.Int64 }

func (s *sleepy) Take(context.Context, dispatch.Question) (dispatch.Answer, error) {
	s.asked.Add(1)
	return dispatch.Answer{Wait: &dispatch.Wait{For: time.Hour, Rule: "1 per 1h"}}, nil
}

func (*sleepy) Settle(context.Context, *dispatch.Grant, dispatch.Outcome) (dispatch.Settlement, error) {
	return dispatch.Settlement{}, nil
}

func (*sleepy) Extend(context.Context, *dispatch.Grant) error { return nil }

// A process that stops gives what it holds back at once; nothing is lost, nothing stays behind as being worked on.
func TestStopReturnsHeldTicks(t *testing.T) {
	t.Parallel()
	conn := redistest.Client(t)
	const lanes, perLane = 4, 25
	record := &sleepy{}
	client := queue.NewClient(conn)
	dispatcher := dispatch.New(dispatch.Config{Hold: 2 * time.Hour, Concurrency: 3}, record, client, push.Registry{})
	server := serve(t, conn, queue.ServerConfig{Lanes: lanes, DrainTimeout: patience}, dispatcher.Handle)
	want := map[int][]string{}
	for lane := range lanes {
		for i := range perLane {
			id := strconv.Itoa(lane) + "-" + strconv.Itoa(100+i)
			want[lane] = append(want[lane], id)
			enqueue(t, conn, tickIn(lane, id))
		}
	}
	await(t, "all ticks are held", func() bool { return record.asked.Load() == lanes*perLane })
	dispatcher.Stop()
	server.Stop()
	for lane := range lanes {
		if diff := cmp.Diff(where{Retry: want[lane]}, look(t, conn, lane)); diff != "" {
			t.Errorf("after the stop lane %d holds (-want +got):\n%s", lane, diff)
		}
		wantUncounted(t, conn, lane)
	}
}

// What is being sent when the process stops is sent, settled and used up before Stop returns.
func TestStopWaitsForDeliveries(t *testing.T) {
	t.Parallel()
	conn := redistest.Client(t)
	record := &granting{}
	sending, release := make(chan struct{}), make(chan struct{})
	dispatcher := dispatch.New(dispatch.Config{}, record, queue.NewClient(conn), push.Registry{notification.ChannelLog: slow{sending, release}})
	server := serve(t, conn, queue.ServerConfig{Lanes: 1, DrainTimeout: patience}, dispatcher.Handle)
	enqueue(t, conn, tickIn(0, "n-1"))
	receive(t, "the delivery to begin", sending)
	dispatcher.Stop()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		server.Stop()
	}()
	close(release)
	receive(t, "the server to stop", stopped)
	if record.settled.Load() != 1 {
		t.Errorf("settled %d times when Stop returned, want once", record.settled.Load())
	}
	if w := look(t, conn, 0); !cmp.Equal(w, where{}) {
		t.Errorf("after the stop the lane holds %+v", w)
	}
}

// granting is a record that grants each tick.
type granting struct{ settled atomic.Int64 }

func (*granting) Take(_ context.Context, q dispatch.Question) (dispatch.Answer, error) {
	return dispatch.Answer{Grant: &dispatch.Grant{Mailbox: q.Mailbox, Tick: q.Tick, Notification: &notification.Notification{
		ID: q.ID, UserID: q.UserID, Category: q.Category, Channel: notification.ChannelLog,
	}}}, nil
}

func (g *granting) Settle(context.Context, *dispatch.Grant, dispatch.Outcome) (dispatch.Settlement, error) {
	g.settled.Add(1)
	return dispatch.Settlement{}, nil
}

func (*granting) Extend(context.Context, *dispatch.Grant) error { return nil }

// slow is a sender that takes as long as the test wants.
type slow struct{ sending, release chan struct{} }

func (slow) CheckTarget(string) error                      { return nil }
func (slow) CheckContent(*notification.Notification) error { return nil }

func (s slow) Send(context.Context, push.Message) error {
	s.sending <- struct{}{}
	<-s.release
	return nil
}

// A handler that does not come back in time keeps its tick from nobody: it goes to the head of its lane.
func TestStopGivesUpWaiting(t *testing.T) {
	t.Parallel()
	conn := redistest.Client(t)
	running, release := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(release) })
	server := serve(t, conn, queue.ServerConfig{Lanes: 1, Held: 1, DrainTimeout: time.Millisecond}, func(context.Context, dispatch.Tick) error {
		running <- struct{}{}
		<-release
		return nil
	})
	enqueue(t, conn, tickIn(0, "n-1"))
	receive(t, "the tick", running)
	enqueue(t, conn, tickIn(0, "n-2"))
	server.Stop()
	if w := look(t, conn, 0); !cmp.Equal(w, where{Pending: []string{"n-1", "n-2"}}) {
		t.Errorf("after the stop the lane holds %+v, want both ticks pending", w)
	}
	next, err := conn.LIndex(t.Context(), "asynq:{push-0}:pending", -1).Result()
	if err != nil || next != "n-1" {
		t.Errorf("the next to be pulled is %q (%v), want n-1, which was pulled before", next, err)
	}
	wantUncounted(t, conn, 0)
}

func TestServerStartsOnce(t *testing.T) {
	t.Parallel()
	conn := redistest.Client(t)
	handle := func(context.Context, dispatch.Tick) error { return nil }
	server := serve(t, conn, queue.ServerConfig{Lanes: 2}, handle)
	if err := server.Start(handle); err == nil || !strings.HasPrefix(err.Error(), "start the queue's server: ") {
		t.Errorf("a second start gives %v", err)
	}
	server.Stop()
	server.Stop() // as often as you like
	if err := server.Start(handle); err == nil || !strings.HasPrefix(err.Error(), "start the queue's server: ") {
		t.Errorf("a start after the stop gives %v", err)
	}
}

func TestPing(t *testing.T) {
	t.Parallel()
	own := redistest.Start(t)
	server := queue.NewServer(own.Client(t), queue.ServerConfig{Lanes: 1})
	if err := server.Ping(); err != nil {
		t.Errorf("Redis is there, but: %v", err)
	}
	own.Kill()
	if err := server.Ping(); err == nil {
		t.Error("Redis is gone, but Ping is content")
	}
}
