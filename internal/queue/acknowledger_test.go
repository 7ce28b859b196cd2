package queue_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/redistest"
)

// These tests hold asynq 0.26 against its fault: the second try of an acknowledgement comes with a context that is already
// cancelled. The acknowledger of this package mends it from outside. When a test named Without fails, asynq has mended it
// itself and the acknowledger can go.

var errCut = errors.New("connection cut")

// faulty is a connection that loses the first acknowledgement on its way to Redis, and tells of all of them.
type faulty struct {
	redis.UniversalClient
	tries chan error // what became of each try of an acknowledgement
	lost  *atomic.Bool
}

func newFaulty(conn redis.UniversalClient) faulty {
	return faulty{conn, make(chan error, 10), &atomic.Bool{}}
}

// acknowledges tells the scripts that end a task's run, by their keys: those of done, and of the one that does it for many,
// begin with the active list, those of retry and archive have it second.
func acknowledges(keys []string) bool {
	done := len(keys) > 3 && strings.HasSuffix(keys[0], ":active") && strings.HasSuffix(keys[len(keys)-1], ":processed")
	return done || len(keys) > 3 && strings.HasSuffix(keys[1], ":active") && strings.HasSuffix(keys[2], ":lease")
}

func (f faulty) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	if !acknowledges(keys) {
		return f.UniversalClient.EvalSha(ctx, sha, keys, args...)
	}
	if f.lost.CompareAndSwap(false, true) {
		cut := redis.NewCmd(ctx)
		cut.SetErr(errCut)
		f.tries <- errCut
		return cut
	}
	cmd := f.UniversalClient.EvalSha(ctx, sha, keys, args...)
	if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		return cmd // it comes again as Eval
	}
	f.tries <- cmd.Err()
	return cmd
}

func (f faulty) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	cmd := f.UniversalClient.Eval(ctx, script, keys, args...)
	if acknowledges(keys) {
		f.tries <- cmd.Err()
	}
	return cmd
}

// bare is a server of asynq as this package sets it up, but without the acknowledger.
func bare(conn redis.UniversalClient, handle func() error) (*asynq.Server, error) {
	server := asynq.NewServerFromRedisClient(conn, asynq.Config{
		Concurrency: 1, Queues: map[string]int{"push-0": 1}, TaskCheckInterval: 50 * time.Millisecond,
		DelayedTaskCheckInterval: time.Second, ShutdownTimeout: patience, LogLevel: asynq.FatalLevel,
		RetryDelayFunc: func(_ int, err error, _ *asynq.Task) time.Duration {
			if errors.Is(err, asynq.ErrLeaseExpired) {
				return 0
			}
			return time.Hour
		},
		IsFailure: func(error) bool { return false },
	})
	return server, server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return handle() }))
}

// endings are the ways in which a run of a tick ends, and where it is afterwards.
var endings = map[string]struct {
	result error
	after  where
}{
	"done":     {nil, where{}},
	"deferred": {&dispatch.DeferralError{Until: time.Now().Add(time.Hour)}, where{Retry: []string{"n-1"}}},
	"archived": {asynq.SkipRetry, where{Archived: []string{"n-1"}}},
}

func TestLostAcknowledgementWithAcknowledger(t *testing.T) {
	t.Parallel()
	for name, ending := range endings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := newFaulty(redistest.Client(t))
			enqueue(t, conn, tickIn(0, "n-1"))
			server := serve(t, conn, queue.ServerConfig{Lanes: 1, Servers: 1}, func(context.Context, dispatch.Tick) error { return ending.result })
			if err := receive(t, "the first try", conn.tries); !errors.Is(err, errCut) {
				t.Fatalf("the first try gives %v", err)
			}
			server.Stop() // asynq tries once more before it ends
			if err := receive(t, "the second try", conn.tries); err != nil {
				t.Errorf("the second try fails: %v", err)
			}
			if diff := cmp.Diff(ending.after, look(t, conn, 0)); diff != "" {
				t.Errorf("the lane holds (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLostAcknowledgementWithout(t *testing.T) {
	t.Parallel()
	for name, ending := range endings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := newFaulty(redistest.Client(t))
			enqueue(t, conn, tickIn(0, "n-1"))
			server, err := bare(conn, func() error { return ending.result })
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.Shutdown)
			if err := receive(t, "the first try", conn.tries); !errors.Is(err, errCut) {
				t.Fatalf("the first try gives %v", err)
			}
			server.Shutdown()
			if err := receive(t, "the second try", conn.tries); !errors.Is(err, context.Canceled) {
				t.Errorf("the second try gives %v, want a cancelled context: asynq has mended its acknowledgements, the acknowledger can go", err)
			}
			if diff := cmp.Diff(where{Active: []string{"n-1"}}, look(t, conn, 0)); diff != "" {
				t.Errorf("the lane holds (-want +got):\n%s", diff)
			}
		})
	}
}

// What the fault costs: the tick runs twice. On the bubble's clock the minutes of asynq's recovery pass at once.
func TestLostAcknowledgementRunsTwiceWithout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := newFaulty(redistest.Mini(t))
		enqueue(t, conn, tickIn(0, "n-1"))
		begin := time.Now()
		runs := make(chan time.Duration, 10)
		server, err := bare(conn, func() error {
			runs <- time.Since(begin)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Shutdown()
		<-runs
		select {
		case again := <-runs:
			if again < 30*time.Second {
				t.Errorf("it ran again after %s, want not before its lease has ended", again)
			}
		case <-time.After(5 * time.Minute):
			t.Error("it did not run again: asynq has mended its acknowledgements, the acknowledger can go")
		}
	})
}

func TestLostAcknowledgementRunsOnceWithAcknowledger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := newFaulty(redistest.Mini(t))
		enqueue(t, conn, tickIn(0, "n-1"))
		runs := make(chan struct{}, 10)
		server := queue.NewServer(conn, queue.ServerConfig{Lanes: 1, Servers: 1, Log: slog.New(slog.DiscardHandler)})
		err := server.Start(func(context.Context, dispatch.Tick) error {
			runs <- struct{}{}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		<-runs
		if err := <-conn.tries; !errors.Is(err, errCut) {
			t.Fatalf("the first try gives %v", err)
		}
		// While the server runs on, asynq tries again by itself.
		if err := <-conn.tries; err != nil {
			t.Errorf("the second try fails: %v", err)
		}
		if w := look(t, conn, 0); !cmp.Equal(w, where{}) {
			t.Errorf("the lane holds %+v, want nothing", w)
		}
		if len(runs) != 0 {
			t.Error("the tick ran again")
		}
	})
}

// The acknowledger takes cancellation away from scripts and nothing else.
func TestOnlyScriptsOutliveTheirContext(t *testing.T) {
	t.Parallel()
	conn := redistest.Client(t)
	enqueue(t, conn, tickIn(0, "n-1"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	mended := queue.Acknowledger(conn)
	if err := mended.Ping(ctx).Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("a command with a cancelled context gives %v", err)
	}
	script := redis.NewScript("return ARGV[1]")
	for _, how := range []string{"Eval", "EvalSha"} { // the first run is not cached yet
		if got, err := script.Run(ctx, mended, []string{"k"}, how).Text(); err != nil || got != how {
			t.Errorf("by %s a script with a cancelled context gives %q (%v)", how, got, err)
		}
	}
}
