package agenda_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// closedFor is closed between two moments after the start.
func closedFor(from, until time.Duration) throttle.Closed {
	return throttle.Closed{{From: throttle.MicrosOf(start.Add(from)), Until: throttle.MicrosOf(start.Add(until))}}
}

// What is held goes from the first to the last moment that was foreseen, and so many: whatever the limits, the hours
// and the caps, what the windows hold already, and what is due later.
func TestWhatIsForeseenIsWhatHappens(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	for n := range 15 {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			w, random := randomWorld(t, rand.New(rand.NewPCG(seed, uint64(n))))
			for range 30 {
				w.accept(random())
			}
			w.playUntil(w.now)
			found := outlook.Of(w.store).Forecast(t.Context(), w.now)
			var foreseen, happens span
			for _, held := range found.Reasons {
				foreseen.add(held.First, int(held.Count))
				foreseen.add(held.Last, 0)
			}
			for _, g := range w.drain() {
				happens.add(g.AdmittedAt, 1)
			}
			if !found.Exact || foreseen.n != happens.n || !foreseen.first.Equal(happens.first) ||
				!foreseen.last.Equal(happens.last) {
				t.Errorf("seed %d: foreseen are %s, there go %s; %+v", seed, foreseen, happens, found)
			}
		})
	}
}

// span is when the first and the last go of so many.
type span struct {
	first, last time.Time
	n           int
}

func (s *span) add(at time.Time, n int) {
	if s.first.IsZero() || at.Before(s.first) {
		s.first = at
	}
	if at.After(s.last) {
		s.last = at
	}
	s.n += n
}

func (s span) String() string {
	return fmt.Sprintf("%d after %s to %s", s.n, s.first.Sub(start), s.last.Sub(start))
}

// What is held by each reason is released in the slices in which it goes, if nothing else comes.
func TestForecast(t *testing.T) {
	t.Parallel()
	hourly := throttle.Plan{Rules: []throttle.Rule{{Max: 1, Per: time.Hour}}}
	twice := throttle.Plan{Rules: []throttle.Rule{{Max: 2, Per: time.Hour}}}
	night := func(p throttle.Plan, from, until time.Duration) throttle.Plan {
		p.Closed = closedFor(from, until)
		return p
	}
	type slices map[int]int64
	for name, c := range map[string]struct {
		plan   throttle.Plan
		entry  agenda.Entry
		n      int
		served bool // those that may go have gone
		// want is one reason, its first and last moment and its slices; later is what is beyond.
		want        string
		first, last time.Duration
		released    slices
		later       int64
	}{
		"one by one": {
			plan: hourly, n: 4, served: true, want: stats.HeldByLimits, first: time.Hour, last: 3 * time.Hour,
			released: slices{2: 1, 4: 1, 6: 1},
		},
		"beyond a day": {
			plan: hourly, n: 31, served: true, want: stats.HeldByLimits, first: time.Hour, last: 30 * time.Hour,
			released: func() slices {
				all := slices{}
				for hour := 1; hour < 24; hour++ {
					all[2*hour] = 1
				}
				return all
			}(), later: 7,
		},
		"a night, then all at once": {
			plan: night(throttle.Plan{}, -time.Hour, 8*time.Hour), n: 5, want: "quiet_hours", first: 8 * time.Hour,
			last: 8 * time.Hour, released: slices{16: 5},
		},
		"a night, then by the limit": {
			plan: night(twice, -time.Hour, 8*time.Hour), n: 5, want: "quiet_hours", first: 8 * time.Hour,
			last: 10 * time.Hour, released: slices{16: 2, 18: 2, 20: 1},
		},
		"a limit, and a night in between": {
			plan: night(hourly, 90*time.Minute, 10*time.Hour), n: 4, served: true, want: stats.HeldByLimits,
			first: time.Hour, last: 11 * time.Hour, released: slices{2: 1, 20: 1, 22: 1},
		},
		"the user's cap": {
			plan: throttle.Plan{Rules: []throttle.Rule{{Max: 1, Per: time.Hour, Kind: throttle.KindCap}}}, n: 2,
			served: true, want: stats.HeldByUserCap, first: time.Hour, last: time.Hour, released: slices{2: 1},
		},
		"scheduled": {
			plan: hourly, entry: agenda.Entry{SendAt: start.Add(2 * time.Hour)}, n: 3, want: stats.HeldBySchedule,
			first: 2 * time.Hour, last: 4 * time.Hour, released: slices{4: 1, 6: 1, 8: 1},
		},
		"scheduled into a night": {
			plan: night(hourly, time.Hour, 9*time.Hour), entry: agenda.Entry{SendAt: start.Add(2 * time.Hour)}, n: 1,
			want: stats.HeldBySchedule, first: 9 * time.Hour, last: 9 * time.Hour, released: slices{18: 1},
		},
		"a retry": {
			plan: hourly, entry: agenda.Entry{SendAt: start.Add(time.Minute), Retrying: true}, n: 1,
			want: stats.HeldForRetry, first: time.Minute, last: time.Minute, released: slices{0: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, agenda.Settings{Plan: c.plan, MaxDefer: 240 * time.Hour})
			for range c.n {
				w.accept(c.entry)
			}
			w.serve()
			for c.served && len(w.grants) > 0 {
				w.settle(delivered)
			}
			found := outlook.Of(w.store).Forecast(t.Context(), w.now)
			if !found.Exact || len(found.Reasons) != 1 || found.Reasons[0].Reason != c.want {
				t.Fatalf("the forecast is %+v", found)
			}
			held := found.Reasons[0]
			if !held.First.Equal(start.Add(c.first)) || !held.Last.Equal(start.Add(c.last)) || held.Later != c.later {
				t.Errorf("it goes from %s to %s, later %d", held.First.Sub(start), held.Last.Sub(start), held.Later)
			}
			total := held.Later
			for i, n := range held.Released {
				total += n
				if n != c.released[i] {
					t.Errorf("in slice %d go %d, want %d", i, n, c.released[i])
				}
			}
			if total != held.Count {
				t.Errorf("%d are held, and %d go", held.Count, total)
			}
		})
	}
}

// What waits for its provider is told apart, and what may go at once is not held.
func TestForecastOfWhatIsHeldByNoLimit(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{})
	w.accept(agenda.Entry{})
	w.serve()
	w.settle(dispatch.Outcome{Disposition: dispatch.Retry, RetryAfter: time.Hour, Untried: true, Refund: true})
	w.accept(agenda.Entry{})
	found := outlook.Of(w.store).Forecast(t.Context(), w.now)
	if len(found.Reasons) != 1 || found.Reasons[0].Reason != stats.HeldForProvider || found.Reasons[0].Count != 1 {
		t.Errorf("the forecast is %+v", found)
	}
}

// Nobody knows when somebody resumes what is paused.
func TestForecastOfWhatIsPaused(t *testing.T) {
	t.Parallel()
	hourly := throttle.Plan{Rules: []throttle.Rule{{Max: 1, Per: time.Hour}}}
	w := setup(t, agenda.Settings{Plan: hourly})
	for range 3 {
		w.accept(agenda.Entry{})
	}
	w.serve()
	w.settle(delivered)
	w.settings[""] = agenda.Settings{Plan: hourly, Paused: time.Minute}
	found := outlook.Of(w.store).Forecast(t.Context(), w.now)
	if len(found.Reasons) != 1 || found.Reasons[0].Reason != notification.ReasonPaused || found.Reasons[0].Count != 2 ||
		found.Reasons[0].Later != 2 || !found.Reasons[0].First.IsZero() {
		t.Errorf("the forecast is %+v", found)
	}
}

// counter counts commands.
type counter struct{ n atomic.Int64 }

func (c *counter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, all []redis.Cmder) error {
		c.n.Add(int64(len(all)))
		return next(ctx, all)
	}
}

// However many users there are, a bounded number is read, and stands for the others; and one user with a huge agenda is
// read in part.
func TestForecastOfMany(t *testing.T) {
	t.Parallel()
	const users, later = 5000, 1000
	w := newWorld(t, t, redistest.Start(t).Client(t), agenda.Settings{
		Plan:     throttle.Plan{Closed: closedFor(-time.Hour, 8*time.Hour), Spread: 4 * time.Hour},
		MaxDefer: 240 * time.Hour,
	})
	batches, total := make([][]agenda.Entry, partitions), int64(0)
	for i := range users {
		user := fmt.Sprintf("user%d", i)
		for k := range 1 + i%3 {
			total++
			batches[w.store.PartitionOf(user)] = append(batches[w.store.PartitionOf(user)], agenda.Entry{
				ID: fmt.Sprintf("n%d-%d", i, k), UserID: user, Category: "chat", Priority: notification.PriorityNormal,
			})
		}
	}
	for i := range later {
		batches[w.store.PartitionOf("ada")] = append(batches[w.store.PartitionOf("ada")], agenda.Entry{
			ID: fmt.Sprintf("l%d", i), UserID: "ada", Category: "chat", Priority: notification.PriorityNormal,
			SendAt: start.Add(12 * time.Hour).Add(time.Duration(i) * time.Second),
		})
	}
	for partition, all := range batches {
		for len(all) > 0 {
			some := all[:min(len(all), scriptLimit)]
			if _, err := w.store.Accept(t.Context(), partition, some); err != nil {
				t.Fatal(err)
			}
			all = all[len(some):]
		}
	}
	w.serve()
	commands := &counter{}
	w.client.AddHook(commands)
	found := outlook.Of(w.store).Forecast(t.Context(), w.now)
	if n := commands.n.Load(); n > 15_000 {
		t.Errorf("it took %d commands", n)
	}
	if found.Exact || len(found.Reasons) == 0 {
		t.Fatalf("the forecast is %+v", found)
	}
	held := found.Reasons[0]
	if off := math.Abs(float64(held.Count-total)) / float64(total); held.Reason != "quiet_hours" || off > 0.05 {
		t.Errorf("%d are held for %s, want about %d", held.Count, held.Reason, total)
	}
	for i, n := range held.Released { // evenly over the four hours
		if want := total / 8; i >= 16 && i < 24 && (n < want*8/10 || n > want*12/10) || (i < 16 || i >= 24) && n != 0 {
			t.Errorf("in slice %d go %d", i, n)
		}
	}
}
