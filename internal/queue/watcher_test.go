package queue_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/embedded"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/test/redistest"
)

// hold is how long a wake-up that came early is held at most.
const hold = 1500 * time.Millisecond

// Of every queue it is told that something stands in it, again and again while nobody takes it, and not of others.
func TestPendingIsTold(t *testing.T) {
	t.Parallel()
	for _, spread := range []bool{false, true} {
		t.Run(fmt.Sprintf("spread %t", spread), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				conn := redistest.Mini(t)
				server := queue.NewServer(
					conn,
					queue.ServerConfig{Partitions: 3, Spread: spread, Log: slog.New(slog.DiscardHandler)},
				)
				if err := server.Start(); err != nil {
					t.Fatal(err)
				}
				defer server.Stop()
				<-time.After(time.Minute) // it looks less often by now
				for range 3 {
					pushPending(t, conn, 1, "u-1")
					for range 3 {
						<-server.Pending(1)
						<-time.After(100 * time.Millisecond)
						if len(server.Pending(0))+len(server.Pending(2)) > 0 {
							t.Error("others are told of")
						}
						if len(server.Pending(1)) == 0 {
							t.Error("it is told only once")
						}
					}
					finish(t, conn, 1, pull(t, conn, 1, 9)...)
					<-server.Pending(1) // of before
					<-time.After(time.Minute)
					if len(server.Pending(1)) > 0 {
						t.Error("it is told of nothing")
					}
				}
			})
		})
	}
}

// A paused queue keeps what it has, and it is told of that when it goes on.
func TestPausedQueuesAreNotToldOf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := redistest.Mini(t)
		client := queue.NewClient(conn)
		server := queue.NewServer(conn, queue.ServerConfig{Partitions: 2, Log: slog.New(slog.DiscardHandler)})
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		reconcile(t, client, 2, 0)
		pushPending(t, conn, 0, "waits")
		pushPending(t, conn, 1, "goes")
		<-server.Pending(1)
		<-time.After(time.Second)
		if len(server.Pending(0)) > 0 {
			t.Error("the paused queue is told of")
		}
		reconcile(t, client, 2)
		start := time.Now()
		<-server.Pending(0)
		if waited := time.Since(start); waited > 100*time.Millisecond {
			t.Errorf("it is told of after %s", waited)
		}
	})
}

// A process that had nothing to do for long looks less often, and is told at once what comes.
func TestLongIdleQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := looking{redistest.Mini(t), &atomic.Int64{}}
		server := queue.NewServer(conn, queue.ServerConfig{Partitions: 4, Log: slog.New(slog.DiscardHandler)})
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		<-time.After(10 * time.Second)
		before := conn.looks.Load()
		<-time.After(10 * time.Second)
		if looks := conn.looks.Load() - before; looks > 50 || looks < 30 {
			t.Errorf("it looked %d times in 10 s, want 4 times a second", looks)
		}
		for range 3 {
			at := time.Now()
			pushPending(t, conn, 2, "u-1")
			<-server.Pending(2)
			// A look at the very moment of the push may find it untold, and mistrusts the doorbell for a while.
			if waited := time.Since(at); waited > 50*time.Millisecond {
				t.Errorf("a wake-up waited for %s", waited)
			}
			finish(t, conn, 2, pull(t, conn, 2, 1)...)
			<-time.After(10 * time.Second)
		}
	})
}

// looking counts the looks for something to do.
type looking struct {
	redis.UniversalClient
	looks *atomic.Int64
}

func (l looking) Exists(ctx context.Context, keys ...string) *redis.IntCmd {
	l.looks.Add(1)
	return l.UniversalClient.Exists(ctx, keys...)
}

// A wake-up comes before its moment, so that it can be held until then, and never so early that it has to go back once
// more. The bubble has a clock of its own: a slow machine is never late there.
func TestComesBeforeItsMoment(t *testing.T) {
	t.Parallel()
	waits := []time.Duration{
		300 * time.Millisecond,
		900 * time.Millisecond,
		hold + time.Millisecond,
		1750 * time.Millisecond,
		1999 * time.Millisecond,
		2 * time.Second,
		2001 * time.Millisecond,
		2500 * time.Millisecond,
		5123 * time.Millisecond,
	}
	for _, offset := range []time.Duration{0, 1, 279, 280, 281, 500, 999} {
		t.Run(fmt.Sprintf("%d ms after a second begins", offset), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				<-time.After(offset * time.Millisecond) // the bubble's clock begins with a whole second
				conn := redistest.Mini(t)
				server := queue.NewServer(conn, queue.ServerConfig{Partitions: 1, Log: slog.New(slog.DiscardHandler)})
				if err := server.Start(); err != nil {
					t.Fatal(err)
				}
				defer server.Stop()
				moments := map[string]time.Time{}
				for _, wait := range waits {
					at := time.Now().Add(wait)
					moments[wait.String()] = at
					run(t, conn, 0, "schedule(ARGV[1], forward_second(tonumber(ARGV[2]), tonumber(ARGV[3])))",
						wait.String(), at.UnixMicro(), queue.Lead.Microseconds())
				}
				for seen := 0; seen < len(waits); {
					<-server.Pending(0)
					for _, id := range pull(t, conn, 0, 99) {
						seen++
						if early := time.Until(moments[id]); early < 0 || early > hold {
							t.Errorf("%s: comes %s before its moment, want 0 to %s", id, early, hold)
						}
					}
				}
			})
		})
	}
}

// Redis's clock says what is due, as it did when that was scheduled. So a process whose own clock is ahead does not
// wake users early again and again, and one whose clock is behind does not wake them late.
func TestRedisSaysWhatIsDue(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"ProcessAhead": -time.Hour, "ProcessBehind": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := miniredis.NewMiniRedis()
			t.Cleanup(server.Close)
			options := &redis.Options{
				Addr:   "127.0.0.1:1",
				Dialer: embedded.Dialer(server),
			} // the address is never dialled
			conn := redis.NewClient(options)
			t.Cleanup(func() { _ = conn.Close() }) // every command has its reply by then
			now := time.Now().Add(ahead)
			server.SetTime(now)
			schedule(t, conn, 0, "due", now.Add(-time.Minute))
			schedule(t, conn, 0, "later", now.Add(time.Minute))
			if more, err := queue.NewClient(conn).Forward(t.Context(), 0); more.More || err != nil {
				t.Fatalf("more may be due: %+v, %v", more, err)
			}
			if diff := cmp.Diff(
				where{Pending: []string{"due"}, Scheduled: []string{"later"}},
				look(t, conn, 0),
			); diff != "" {
				t.Errorf("the queue holds (-want +got):\n%s", diff)
			}
		})
	}
}

// One script moves a bounded number of wake-ups, and yet all that are due arrive.
func TestManyDueWakeupsAreForwarded(t *testing.T) {
	t.Parallel()
	conn := redistest.Client(t)
	const n = 1700
	for i := range n {
		schedule(t, conn, i%2, fmt.Sprintf("u-%04d", i), time.Now().Add(-time.Duration(n-i)*time.Second))
	}
	schedule(t, conn, 1, "later", time.Now().Add(time.Hour))
	for _, want := range []bool{true, false} {
		if more, err := queue.NewClient(conn).Forward(t.Context(), 0); more.More != want || err != nil {
			t.Fatalf("more may be due: %+v, want %t, %v", more, want, err)
		}
	}
	want := where{Pending: make([]string, 0, n/2)}
	for i := 0; i < n; i += 2 {
		want.Pending = append(want.Pending, fmt.Sprintf("u-%04d", i))
	}
	if diff := cmp.Diff(want, look(t, conn, 0)); diff != "" {
		t.Errorf("the queue holds (-want +got):\n%s", diff)
	}
	if first := pull(t, conn, 0, 1); first[0] != "u-0000" {
		t.Errorf("%s comes first", first)
	}
	serve(t, conn, queue.ServerConfig{Partitions: 2})
	await(t, "the others have come too", func() bool {
		w := look(t, conn, 1)
		return len(w.Pending) == n/2 && cmp.Equal(w.Scheduled, []string{"later"})
	})
	for _, id := range []string{"u-0001", "u-1699"} {
		fields := conn.HGetAll(t.Context(), "asynq:{push-1}:t:"+id).Val()
		if fields["state"] != "pending" || len(fields["pending_since"]) != 19 {
			t.Errorf("%s is %v", id, fields)
		}
	}
}

func TestServerStartsOnce(t *testing.T) {
	t.Parallel()
	server := serve(t, redistest.Client(t), queue.ServerConfig{Partitions: 2})
	if err := server.Start(); err == nil || !strings.HasPrefix(err.Error(), "start the queue's server: ") {
		t.Errorf("a second start gives %v", err)
	}
	server.Stop()
	server.Stop() // as often as you like
	if err := server.Start(); err == nil || !strings.HasPrefix(err.Error(), "start the queue's server: ") {
		t.Errorf("a start after the stop gives %v", err)
	}
}

// The queues are announced again when Redis has lost that it knew them.
func TestQueuesAreAnnouncedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := redistest.Mini(t)
		server := queue.NewServer(conn, queue.ServerConfig{Partitions: 3, Log: slog.New(slog.DiscardHandler)})
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		for range 2 {
			<-time.After(2 * time.Minute)
			if n := conn.SCard(t.Context(), "asynq:queues").Val(); n != 3 {
				t.Errorf("%d queues are known, want 3", n)
			}
			conn.FlushAll(t.Context())
		}
	})
}

func TestPing(t *testing.T) {
	t.Parallel()
	own := redistest.Start(t)
	server := queue.NewServer(own.Client(t), queue.ServerConfig{Partitions: 1})
	if err := server.Ping(); err != nil {
		t.Errorf("Redis is there, but: %v", err)
	}
	own.Kill()
	if err := server.Ping(); err == nil {
		t.Error("Redis is gone, but Ping is content")
	}
}

// pushUntold puts a wake-up into a partition's queue as asynq's tools do: nobody is told.
func pushUntold(t *testing.T, conn redis.UniversalClient, partition int, user string) {
	t.Helper()
	run(t, conn, partition, "TELL = false push_pending(ARGV)", user)
}

// drop takes a signal of what has been pulled since.
func drop(signal <-chan struct{}) {
	select {
	case <-signal:
	default:
	}
}

// A process that was not told of a wake-up finds it a little later, and then looks as often as one that can't be told.
func TestUntoldWakeupsAreFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := looking{redistest.Mini(t), &atomic.Int64{}}
		server := queue.NewServer(conn, queue.ServerConfig{Partitions: 4, Log: slog.New(slog.DiscardHandler)})
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		for _, want := range []struct{ idle, waits time.Duration }{
			{10 * time.Second, 250 * time.Millisecond},
			{30 * time.Second, 50 * time.Millisecond},
			{20 * time.Second, 50 * time.Millisecond},
			{70 * time.Second, 250 * time.Millisecond}, // it trusts again
		} {
			<-time.After(want.idle)
			at := time.Now()
			pushUntold(t, conn, 2, "u-1")
			<-server.Pending(2)
			if waited := time.Since(at); waited > want.waits {
				t.Errorf("after %s a wake-up waited for %s, want at most %s", want.idle, waited, want.waits)
			}
			finish(t, conn, 2, pull(t, conn, 2, 1)...)
			drop(server.Pending(2))
		}
	})
}

// Who forwards a wake-up tells processes that have nothing to do, and looks at once.
func TestForwardedWakeupsAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := redistest.Mini(t)
		server := queue.NewServer(conn, queue.ServerConfig{Partitions: 4, Log: slog.New(slog.DiscardHandler)})
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		<-time.After(10*time.Second + 300*time.Millisecond) // the bubble's clock begins with a whole second
		for range 3 {
			at := time.Now().Truncate(time.Second).Add(3 * time.Second)
			schedule(t, conn, 2, "u-1", at)
			<-server.Pending(2)
			if waited := time.Since(at); waited < 0 || waited > 120*time.Millisecond {
				t.Errorf("a wake-up comes %s after its second", waited)
			}
			finish(t, conn, 2, pull(t, conn, 2, 1)...)
			<-time.After(10 * time.Second)
			drop(server.Pending(2))
		}
		schedule(t, conn, 3, "u-2", time.Now().Add(-time.Second))
		if _, err := queue.NewClient(conn).Forward(t.Context(), 0, 3); err != nil { // another process
			t.Fatal(err)
		}
		at := time.Now()
		<-server.Pending(3)
		if waited := time.Since(at); waited > 20*time.Millisecond {
			t.Errorf("what another process has forwarded waits for %s", waited)
		}
	})
}

// Who knows that something is pending has the server look there: at once, however long it has had nothing to do. Of a
// paused queue nothing is signalled.
func TestItLooksWhereItIsAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := redistest.Mini(t)
		server := queue.NewServer(conn, queue.ServerConfig{Partitions: 4, Log: slog.New(slog.DiscardHandler)})
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		conn.Set(t.Context(), "asynq:{push-3}:paused", "1", 0)
		<-time.After(10*time.Second + time.Millisecond)
		at := time.Now()
		for partition := range 3 {
			pushUntold(t, conn, partition+1, "u-1")
			server.Look(partition + 1)
		}
		<-server.Pending(1)
		<-server.Pending(2)
		if waited := time.Since(at); waited > 0 {
			t.Errorf("it looks after %s", waited)
		}
		synctest.Wait()
		if len(server.Pending(3)) > 0 {
			t.Error("a paused queue is signalled")
		}
	})
}

// A process whose connection is cut, on which it is told, is told again: a real server says who listens.
func TestItIsToldAgainAfterADisconnection(t *testing.T) {
	t.Parallel()
	own := redistest.Start(t)
	conn := own.Client(t)
	server := serve(t, conn, queue.ServerConfig{Partitions: 2})
	listens := func() bool {
		return conn.PubSubNumSub(t.Context(), "asynq:pacer:pending").Val()["asynq:pacer:pending"] == 1
	}
	await(t, "it listens", listens)
	if n, err := conn.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Result(); n == 0 || err != nil {
		t.Fatalf("%d connections were cut, %v", n, err)
	}
	await(t, "it listens again", listens)
	pushPending(t, conn, 1, "u-1")
	receive(t, "the wake-up", server.Pending(1))
	await(t, "it has something to do, and is not told any more", func() bool { return !listens() })
	finish(t, conn, 1, pull(t, conn, 1, 1)...)
	await(t, "it listens again, with nothing to do", listens)
}

// A user of Redis who may not publish pushes wake-ups all the same.
func TestWhoMayNotPublishPushes(t *testing.T) {
	t.Parallel()
	own := redistest.Start(t)
	conn := own.Client(t)
	if err := conn.Do(t.Context(), "ACL", "SETUSER", "default", "resetchannels", "-publish").Err(); err != nil {
		t.Fatal(err)
	}
	if err := conn.Publish(t.Context(), "asynq:pacer:pending", "").Err(); err == nil {
		t.Fatal("the user may publish")
	}
	pushPending(t, conn, 1, "u-1")
	schedule(t, conn, 0, "u-2", time.Now().Add(-time.Second))
	if forwarded, err := queue.NewClient(conn).Forward(t.Context(), 0, 1); forwarded.Moved != 1 || err != nil {
		t.Errorf("forwarded %+v, %v", forwarded, err)
	}
	server := serve(t, conn, queue.ServerConfig{Partitions: 2})
	receive(t, "the pushed wake-up", server.Pending(1))
	receive(t, "the forwarded wake-up", server.Pending(0))
}
