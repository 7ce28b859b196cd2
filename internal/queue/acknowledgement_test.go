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

var errCut = errors.New("connection cut")

// faulty is a connection that loses the first acknowledgements: on their way to Redis, or the answers on their way back.
type faulty struct {
	redis.UniversalClient
	answers bool          // the answers are lost, not the questions
	left    *atomic.Int64 // how many more are lost
	tries   chan error    // what became of each try
}

func newFaulty(conn redis.UniversalClient, answers bool) faulty {
	f := faulty{conn, answers, &atomic.Int64{}, make(chan error, 100)}
	f.left.Store(2)
	return f
}

// acknowledges tells the scripts that end a task's run by what they are asked: a day or an id, as text, more, and the nonce.
// Those that take tasks and move what is due begin with a moment, as a number.
func acknowledges(keys []string, args []any) bool {
	if len(args) <= 3 || !strings.HasSuffix(keys[0], "}:") {
		return false
	}
	_, text := args[0].(string)
	return text
}

func (f faulty) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	return f.try(ctx, keys, args, func() *redis.Cmd { return f.UniversalClient.EvalSha(ctx, sha, keys, args...) })
}

func (f faulty) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return f.try(ctx, keys, args, func() *redis.Cmd { return f.UniversalClient.Eval(ctx, script, keys, args...) })
}

func (f faulty) try(ctx context.Context, keys []string, args []any, run func() *redis.Cmd) *redis.Cmd {
	if !acknowledges(keys, args) {
		return run()
	}
	cut := redis.NewCmd(ctx)
	cut.SetErr(errCut)
	if !f.answers && f.left.Add(-1) >= 0 {
		f.tries <- errCut
		return cut
	}
	cmd := run()
	if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		return cmd // it comes again as Eval
	}
	if f.answers && f.left.Add(-1) >= 0 {
		f.tries <- errCut
		return cut
	}
	f.tries <- cmd.Err()
	return cmd
}

// endings are the ways in which a run of a tick ends, and where it is afterwards.
var endings = map[string]struct {
	task   *asynq.Task
	result error
	after  where
}{
	"done":     {nil, nil, where{}},
	"deferred": {nil, &dispatch.DeferralError{Until: time.Now().Add(time.Hour)}, where{Retry: []string{"n-1"}}},
	"foreign":  {asynq.NewTask("email:deliver", nil), nil, where{Archived: []string{"n-1"}}},
}

// An acknowledgement is repeated until Redis has answered, and repeated it is as once. asynq's own is never repaired: see
// docs/adr/0012.
func TestLostAcknowledgements(t *testing.T) {
	t.Parallel()
	for name, ending := range endings {
		for _, answers := range []bool{false, true} {
			t.Run(name+map[bool]string{false: ", question lost", true: ", answer lost"}[answers], func(t *testing.T) {
				t.Parallel()
				plain := redistest.Client(t)
				conn := newFaulty(plain, answers)
				if ending.task == nil {
					enqueue(t, plain, tickIn(0, "n-1"))
				} else if _, err := asynq.NewClientFromRedisClient(plain).Enqueue(ending.task, asynq.Queue("push-0"), asynq.TaskID("n-1")); err != nil {
					t.Fatal(err)
				}
				runs := make(chan struct{}, 10)
				server := serve(t, conn, queue.ServerConfig{Lanes: 1}, func(context.Context, dispatch.Tick) error {
					runs <- struct{}{}
					return ending.result
				})
				for i, want := range []error{errCut, errCut, nil} {
					if err := receive(t, "a try", conn.tries); !errors.Is(err, want) {
						t.Fatalf("try %d gives %v, want %v", i+1, err, want)
					}
				}
				server.Stop()
				if diff := cmp.Diff(ending.after, look(t, plain, 0)); diff != "" {
					t.Errorf("the lane holds (-want +got):\n%s", diff)
				}
				if len(runs) > 1 || len(conn.tries) > 0 {
					t.Errorf("it ran %d times, and %d tries came after the one that succeeded", len(runs), len(conn.tries))
				}
			})
		}
	}
}

// What takes longer than a lease stays this process's: asynq's recovery finds nothing to take back.
func TestLongRunsKeepTheirLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := redistest.Mini(t)
		enqueue(t, conn, tickIn(0, "n-1"))
		runs := make(chan struct{}, 10)
		server := queue.NewServer(conn, queue.ServerConfig{Lanes: 1, Log: slog.New(slog.DiscardHandler)})
		err := server.Start(func(context.Context, dispatch.Tick) error {
			runs <- struct{}{}
			<-time.After(4 * time.Minute)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		for range 39 {
			<-time.After(6 * time.Second)
			until, err := conn.ZScore(t.Context(), "asynq:{push-0}:lease", "n-1").Result()
			if left := time.Until(time.Unix(int64(until), 0)); err != nil || left < 15*time.Second {
				t.Errorf("its lease goes on for %s (%v)", left, err)
			}
		}
		<-time.After(10 * time.Second)
		if w := look(t, conn, 0); !cmp.Equal(w, where{}) || len(runs) != 1 {
			t.Errorf("it ran %d times, and the lane holds %+v", len(runs), w)
		}
	})
}
