package postgres_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	goredis "github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/internal/store/postgres/connect"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// first is a hook that runs do once, before the first script about a user.
type first struct {
	user string
	once sync.Once
	do   func()
}

// DialHook implements [goredis.Hook].
func (f *first) DialHook(next goredis.DialHook) goredis.DialHook { return next }

// ProcessPipelineHook implements [goredis.Hook].
func (f *first) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

// ProcessHook implements [goredis.Hook].
func (f *first) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		if slices.Contains(cmd.Args(), any(f.user)) {
			f.once.Do(f.do)
		}
		return next(ctx, cmd)
	}
}

// flightWorld is a world whose results wait for a rebuild. A limit of two in an hour by the algorithm, a user cap and a
// cap of one channel hold.
func flightWorld(t *testing.T, algorithm throttle.Algorithm) *world {
	t.Helper()
	hour := func(limit int, kind throttle.Kind) throttle.Rule {
		return throttle.Rule{Max: limit, Per: time.Hour, Kind: kind}
	}
	logs := hour(4, throttle.KindNamed)
	logs.Cap, logs.Channels = "logs", "log"
	plan := throttle.Plan{
		Algorithm: algorithm, Rules: []throttle.Rule{hour(2, throttle.KindLimit), hour(5, throttle.KindCap), logs},
	}
	cfg := agenda.Config{MaxCrashes: 1000, Settings: func(string, string) agenda.Settings {
		return agenda.Settings{MaxDefer: 48 * time.Hour, Plan: plan}
	}}
	return newWorldOn(t, redistest.Client(t), cfg, postgrestest.URL(t), connect.Direct,
		func(cfg *postgres.Config) { cfg.LostPatience = time.Minute })
}

// settling settles a grant, as its worker does meanwhile, and returns once Postgres has the result. The function that
// it returns waits until Redis has it too.
func (w *world) settling(t *testing.T, g *dispatch.Grant, o dispatch.Outcome) (settled func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		s, err := w.store.Settle(context.WithoutCancel(t.Context()), g, o)
		if s.Stale {
			t.Errorf("%s is settled as stale", g.Notification.ID)
		}
		done <- err
	}()
	for status := "sending"; status == "sending"; {
		if err := w.pool.QueryRow(t.Context(), "SELECT status FROM pacer.notifications WHERE id = $1", g.Notification.ID).
			Scan(&status); err != nil {
			t.Error(err)
			break
		}
	}
	return func() {
		t.Helper()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func (w *world) rebuildLost(t *testing.T) {
	t.Helper()
	if rebuilt, err := w.relay.RebuildLost(t.Context()); err != nil || len(rebuilt.Partitions) == 0 {
		t.Fatalf("rebuilt %+v, %v", rebuilt, err)
	}
}

// losses are the moments of a loss of all of Redis at which a worker may settle what it has in flight.
func losses() map[string]func(t *testing.T, w *world, g *dispatch.Grant, o dispatch.Outcome) {
	return map[string]func(t *testing.T, w *world, g *dispatch.Grant, o dispatch.Outcome){
		"NoLoss": func(t *testing.T, w *world, g *dispatch.Grant, o dispatch.Outcome) {
			t.Helper()
			w.settle(t, g, o)
		},
		"BeforeTheRebuild": func(t *testing.T, w *world, g *dispatch.Grant, o dispatch.Outcome) {
			t.Helper()
			w.flush(t)
			settled := w.settling(t, g, o)
			w.rebuildLost(t)
			settled()
		},
		"DuringTheRebuild": func(t *testing.T, w *world, g *dispatch.Grant, o dispatch.Outcome) {
			t.Helper()
			w.flush(t)
			var settled func()
			w.redis.AddHook(&first{user: g.UserID, do: func() { settled = w.settling(t, g, o) }})
			w.rebuildLost(t)
			settled()
		},
		"AfterTheRebuild": func(t *testing.T, w *world, g *dispatch.Grant, o dispatch.Outcome) {
			t.Helper()
			w.flush(t)
			w.rebuildLost(t)
			if err := w.store.Extend(t.Context(), g); err != nil {
				t.Error(err)
			}
			w.settle(t, g, o)
		},
	}
}

// A delivery that is in flight when all of Redis is lost is settled as if nothing had happened, whenever its worker
// settles it: what it gives back may go at once, what it used counts once, and nothing is left behind that waits or
// counts as deferred.
func TestWhatIsInFlightAtALossIsSettled(t *testing.T) {
	t.Parallel()
	type left struct {
		went                       []string
		deferred, sending, waiting int64
		logs                       map[string]int
		differences                []string
	}
	for name, algorithm := range map[string]throttle.Algorithm{
		"Rolling": throttle.Rolling, "FixedWindow": throttle.FixedWindow, "TokenBucket": throttle.TokenBucket,
	} {
		for how, o := range map[string]dispatch.Outcome{
			"Delivered": delivered,
			"Failed":    {Disposition: dispatch.Failed, Reason: "no such device", Failure: true},
			"Returned":  {Disposition: dispatch.Returned, Reason: "late", Refund: true},
			"Held":      {Disposition: dispatch.Retry, Reason: "away", Refund: true, Untried: true, RetryAfter: time.Hour},
			"Retried":   {Disposition: dispatch.Retry, Reason: "busy", Failure: true, RetryAfter: time.Hour},
		} {
			if algorithm != throttle.Rolling && how != "Delivered" && how != "Returned" {
				continue // the algorithms differ in how they count and refund
			}
			t.Run(name+how, func(t *testing.T) {
				t.Parallel()
				found := map[string]left{}
				for when, lose := range losses() {
					w := flightWorld(t, algorithm)
					w.accept(t, "ada", "chat", 4)
					w.deliver(t, "ada")
					g := w.take(t, "ada")
					if g == nil {
						t.Fatal("the second is not granted")
					}
					lose(t, w, g, o)
					l := left{logs: map[string]int{}, went: w.deliverAll(t)}
					w.round(t)
					counts := w.stats(t)
					l.deferred, l.sending, l.waiting = counts.Deferred, counts.Sending, counts.Queued+counts.Retrying
					for key, moments := range w.logs(t, "ada") {
						l.logs[key] = len(moments)
					}
					l.differences = w.differences(t)
					found[when] = l
				}
				for when, l := range found {
					if diff := gocmp.Diff(found["NoLoss"], l, gocmp.AllowUnexported(left{})); diff != "" {
						t.Errorf("settled %s (-without a loss +got):\n%s", when, diff)
					}
				}
			})
		}
	}
}
