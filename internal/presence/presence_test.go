package presence_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/presence"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/test/redistest"
)

var quiet = slog.New(slog.DiscardHandler)

func idle() int { return 0 }

// list returns the processes that are alive, sorted by id.
func list(t *testing.T, client redis.UniversalClient) []presence.Process {
	t.Helper()
	processes, err := presence.List(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(processes, func(a, b presence.Process) int { return strings.Compare(a.ID, b.ID) })
	return processes
}

func announce(t *testing.T, a *presence.Announcer) {
	t.Helper()
	if err := a.Announce(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// keys lists every key there is.
func keys(t *testing.T, client redis.UniversalClient) []string {
	t.Helper()
	all, err := client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

// engines are what processes may be listed on.
var engines = map[string]func(testing.TB) *redis.Client{"redis": redistest.Client, "in-process redis": redistest.Mini}

func TestAnnouncedProcessesAreListed(t *testing.T) {
	t.Parallel()
	for name, client := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := client(t)
			if got := list(t, conn); got != nil {
				t.Errorf("before anybody is announced: %v", got)
			}
			var load atomic.Int64
			before := time.Now().UTC().Truncate(time.Second)
			a := presence.NewAnnouncer(conn, "host-a", []string{"api", "worker"}, func() int {
				return int(load.Load())
			}, quiet)
			b := presence.NewAnnouncer(conn, "host-b", []string{"ops"}, idle, quiet)
			after := time.Now().UTC()
			load.Store(7)
			announce(t, a)
			announce(t, b)
			load.Store(9)
			announce(t, a)
			got := list(t, conn)
			for i := range got {
				if since := got[i].Since; since.Before(before) || since.After(after) || since.Location() != time.UTC {
					t.Errorf("%s is there since %s, want between %s and %s", got[i].ID, since, before, after)
				}
				if got[i].ClockAhead > 1 || got[i].ClockAhead < -1 {
					t.Errorf("%s says that its clock is %.1f s ahead of Redis's on the same host", got[i].ID, got[i].ClockAhead)
				}
				got[i].Since, got[i].ClockAhead = time.Time{}, 0
			}
			want := []presence.Process{
				{Process: stats.Process{ID: a.ID(), Host: "host-a", Roles: []string{"api", "worker"}, InFlight: 9}},
				{Process: stats.Process{ID: b.ID(), Host: "host-b", Roles: []string{"ops"}}},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("processes differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProcessesOfOneHostAreDifferent(t *testing.T) {
	t.Parallel()
	conn := redistest.Mini(t)
	seen := map[string]bool{}
	for range 20 {
		a := presence.NewAnnouncer(conn, "host", nil, idle, quiet)
		if seen[a.ID()] || !strings.HasPrefix(a.ID(), "host-") {
			t.Errorf("id %q is taken already, or does not tell the host", a.ID())
		}
		seen[a.ID()] = true
		announce(t, a)
	}
	if n := len(list(t, conn)); n != 20 {
		t.Errorf("%d processes are listed, want 20", n)
	}
}

// An entry that nobody renews ends by itself, and listing forgets its id: a deployment whose processes come and go for
// years leaves nothing behind.
func TestDeadProcessesAreForgotten(t *testing.T) {
	t.Parallel()
	for name, client := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := client(t)
			dead := presence.NewAnnouncer(conn, "dead", nil, idle, quiet)
			alive := presence.NewAnnouncer(conn, "alive", nil, idle, quiet)
			announce(t, dead)
			announce(t, alive)
			entry := "pacer:{processes}:" + dead.ID()
			if life := conn.PTTL(t.Context(), entry).Val(); life <= 0 || life > 10*time.Second {
				t.Errorf("an entry lives for %s, want 10 s", life)
			}
			if err := conn.PExpire(t.Context(), entry, time.Millisecond).Err(); err != nil { // ten seconds later
				t.Fatal(err)
			}
			deadline := time.Now().Add(time.Minute)
			for conn.Exists(t.Context(), entry).Val() != 0 && time.Now().Before(deadline) {
				<-time.After(time.Millisecond)
			}
			got := list(t, conn)
			if len(got) != 1 || got[0].ID != alive.ID() {
				t.Errorf("listed are %v, want only %s", got, alive.ID())
			}
			ids, err := conn.SMembers(t.Context(), "pacer:{processes}:all").Result()
			if err != nil || !slices.Equal(ids, []string{alive.ID()}) {
				t.Errorf("the ids that are kept are %v (%v), want only %s", ids, err, alive.ID())
			}
			announce(t, dead) // it was only away
			if n := len(list(t, conn)); n != 2 {
				t.Errorf("%d processes are listed after one came back, want 2", n)
			}
		})
	}
}

// run runs the announcer until the returned function has been called.
func run(ctx context.Context, a *presence.Announcer) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { a.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

func TestRunningProcessStaysListed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := redistest.Mini(t)
		stop := run(t.Context(), presence.NewAnnouncer(conn, "host", nil, idle, quiet))
		synctest.Wait()
		if n := len(list(t, conn)); n != 1 {
			t.Errorf("%d processes are listed at once, want 1", n)
		}
		for range 7 {
			<-time.After(9 * time.Second)
			if n := len(list(t, conn)); n != 1 {
				t.Errorf("%d processes are listed after a while, want 1", n)
			}
		}
		stop()
		if left := keys(t, conn); len(left) != 0 {
			t.Errorf("after its end these keys are left: %v", left)
		}
	})
}

func TestKilledProcessIsListedNoLongerThanTenSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := redistest.Mini(t)
		announce(t, presence.NewAnnouncer(conn, "host", nil, idle, quiet))
		<-time.After(9999 * time.Millisecond)
		if n := len(list(t, conn)); n != 1 {
			t.Errorf("%d processes are listed just before, want 1", n)
		}
		<-time.After(2 * time.Millisecond)
		if n := len(list(t, conn)); n != 0 {
			t.Errorf("%d processes are listed just after, want none", n)
		}
	})
}

// A process that died is waited for; one that renews its entry is found, also beside a dead one.
func TestRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := redistest.Mini(t)
		running := func(want string) {
			t.Helper()
			got, err := presence.Running(t.Context(), conn)
			if err != nil || got.ID != want {
				t.Errorf("running is %q, %v; want %q", got.ID, err, want)
			}
		}
		start := time.Now()
		running("")
		if waited := time.Since(start); waited != 0 {
			t.Errorf("it waited %s for nobody", waited)
		}
		announce(t, presence.NewAnnouncer(conn, "dead", nil, idle, quiet))
		running("")
		if waited := time.Since(start); waited > 11*time.Second {
			t.Errorf("it waited %s for a dead process, whose entry lives for 10 s", waited)
		}
		announce(t, presence.NewAnnouncer(conn, "dead", nil, idle, quiet))
		alive := presence.NewAnnouncer(conn, "alive", nil, idle, quiet)
		stop := run(t.Context(), alive)
		running(alive.ID())
		stop()
		running("")
		announce(t, presence.NewAnnouncer(conn, "dead", nil, idle, quiet))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got, err := presence.Running(ctx, conn); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("of a wait that was given up it says %q, %v", got.ID, err)
		}
	})
}

// broken makes every command of a client fail, or hang, while it is switched on.
type broken struct {
	on   atomic.Bool
	hang bool
}

var errAway = errors.New("redis is away")

func (b *broken) fault(ctx context.Context) error {
	if !b.on.Load() {
		return nil
	}
	if b.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return errAway
}

func (b *broken) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (b *broken) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := b.fault(ctx); err != nil {
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

func (b *broken) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := b.fault(ctx); err != nil {
			return err
		}
		return next(ctx, cmds)
	}
}

func TestGoesOnWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := redistest.Mini(t)
		away := &broken{}
		conn.AddHook(away)
		var log bytes.Buffer
		stop := run(t.Context(),
			presence.NewAnnouncer(conn, "host", nil, idle, slog.New(slog.NewTextHandler(&log, nil))))
		synctest.Wait()
		away.on.Store(true)
		<-time.After(61 * time.Second) // between two renewals, which come every two seconds
		away.on.Store(false)
		if n := len(list(t, conn)); n != 0 {
			t.Errorf("%d processes are listed after a minute without one, want none", n)
		}
		<-time.After(2 * time.Second)
		if n := len(list(t, conn)); n != 1 {
			t.Errorf("%d processes are listed once Redis is back, want 1", n)
		}
		stop()
		if log.Len() != 0 {
			t.Errorf("who only looks for trouble is told of it every two seconds:\n%s", log.String())
		}
	})
}

// The end of a process does not wait for a Redis that hangs.
func TestEndDoesNotHang(t *testing.T) {
	t.Parallel()
	for name, hang := range map[string]bool{"redis hangs": true, "redis is away": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				conn := redistest.Mini(t)
				away := &broken{hang: hang}
				conn.AddHook(away)
				stop := run(t.Context(), presence.NewAnnouncer(conn, "host", nil, idle, quiet))
				synctest.Wait()
				away.on.Store(true)
				begin := time.Now()
				stop()
				if took := time.Since(begin); took > time.Second {
					t.Errorf("the end took %s, want at most a second", took)
				}
			})
		})
	}
}

func TestErrorsSayWhatWasDone(t *testing.T) {
	t.Parallel()
	conn := redistest.Mini(t)
	away := &broken{}
	conn.AddHook(away)
	a := presence.NewAnnouncer(conn, "host", nil, idle, quiet)
	announce(t, a)
	away.on.Store(true)
	if err := a.Announce(t.Context()); !errors.Is(err, errAway) ||
		!strings.HasPrefix(err.Error(), "write the entry of process "+a.ID()+": ") {
		t.Errorf("Announce gives %v", err)
	}
	if got, err := presence.List(t.Context(), conn); !errors.Is(err, errAway) || got != nil ||
		!strings.HasPrefix(err.Error(), "list the processes: ") {
		t.Errorf("List gives %v, %v", got, err)
	}
	away.on.Store(false)
	if err := conn.Set(t.Context(), "pacer:{processes}:"+a.ID(), "{", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := presence.List(t.Context(), conn); err == nil || got != nil ||
		!strings.HasPrefix(err.Error(), "read the entry of process "+a.ID()+": ") {
		t.Errorf("with an entry that can't be read List gives %v, %v", got, err)
	}
}

// All keys lie in one slot, so that a cluster takes them together.
func TestOnCluster(t *testing.T) {
	t.Parallel()
	conn := redistest.Start(t, "--cluster-enabled", "yes").Client(t)
	if err := conn.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for !strings.Contains(conn.ClusterInfo(t.Context()).Val(), "cluster_state:ok") && time.Now().Before(deadline) {
		<-time.After(5 * time.Millisecond)
	}
	stops := []func(){}
	for range 3 {
		stops = append(stops, run(t.Context(), presence.NewAnnouncer(conn, "host", nil, idle, quiet)))
	}
	for len(list(t, conn)) != 3 && time.Now().Before(deadline) {
		<-time.After(5 * time.Millisecond)
	}
	if n := len(list(t, conn)); n != 3 {
		t.Errorf("%d processes are listed, want 3", n)
	}
	for _, stop := range stops {
		stop()
	}
	if left := keys(t, conn); len(left) != 0 {
		t.Errorf("after their end these keys are left: %v", left)
	}
}
