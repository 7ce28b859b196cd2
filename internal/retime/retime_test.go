package retime_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/effective"
	"github.com/pacer-notify/pacer/internal/presence"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/retime"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const (
	partitions  = 4
	old, newest = "0000000000000001", "0000000000000002"
	brief       = "0000000000000003"
	alike       = "0000000000000004" // another text than old, with the same limits
)

// limits are the rules by the version of the policy.
var limits = map[string][]throttle.Rule{
	old: {{Max: 1, Per: time.Hour}}, alike: {{Max: 1, Per: time.Hour}}, newest: {{Max: 4, Per: time.Hour}},
	brief: {{Max: 1, Per: 2 * time.Second}, {Max: 9, Per: time.Hour}},
}

// process is one process of a deployment under test.
type process struct {
	*retime.Service
	*agenda.Agendas
	tb       testing.TB
	version  atomic.Pointer[string]
	now      time.Time
	rounds   int
	accepted map[string]int // by user
	announce *presence.Announcer
	queue    *queue.Client
}

// newProcess starts a process that has a version of the policy.
func newProcess(tb testing.TB, client redis.UniversalClient, version string) *process {
	tb.Helper()
	p := &process{tb: tb, now: time.Now(), accepted: map[string]int{}, queue: queue.NewClient(client)}
	p.version.Store(&version)
	var err error
	p.Agendas, err = agenda.New(client, agenda.Config{
		Partitions: partitions, Categories: func() []string { return []string{"chat"} },
		Settings: func(string, string) agenda.Settings {
			return agenda.Settings{Plan: throttle.Plan{Rules: limits[*p.version.Load()]}, MaxDefer: 1000 * time.Hour}
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	p.announce = presence.NewAnnouncer(client, "host", []string{"worker"}, func() int { return 0 },
		slog.New(slog.DiscardHandler))
	p.Service = retime.New(retime.Config{
		Client: client, Agendas: p.Agendas, Process: p.announce.ID(),
		Announce: func(ctx context.Context) error {
			entry := "pacer:{processes}:" + p.announce.ID() // which nobody renews, however long the test takes
			return errors.Join(p.announce.Announce(ctx), client.Persist(ctx, entry).Err())
		},
		Version: func() string { return *p.version.Load() }, Now: func() time.Time { return p.now },
		Log: slog.New(slog.DiscardHandler),
	})
	p.announce.Reporting(func() any { return map[string]string{"ready": p.Ready()} })
	p.Start(tb.Context())
	return p
}

// load has a process read another policy.
func (p *process) load(version string) {
	before := p.version.Swap(&version)
	p.Changed(effective.Change{Before: *before, After: version})
}

// step makes one turn.
func (p *process) step() {
	p.tb.Helper()
	if _, err := p.Step(p.tb.Context()); err != nil {
		p.tb.Fatal(err)
	}
}

// accept has as many more notifications of a user wait.
func (p *process) accept(user string, n int) {
	p.tb.Helper()
	entries := make([]agenda.Entry, n)
	for i := range entries {
		id := fmt.Sprint(user, "-", p.accepted[user])
		entries[i] = agenda.Entry{ID: id, UserID: user, Category: "chat", Priority: 3}
		p.accepted[user]++
	}
	if _, err := p.Accept(p.tb.Context(), p.PartitionOf(user), entries); err != nil {
		p.tb.Fatal(err)
	}
}

// work delivers what may go now, and counts the deliveries and the wake-ups that were pulled.
func (p *process) work() (delivered, pulled int) {
	p.tb.Helper()
	for partition := range partitions {
		for more := true; more; { // wake-ups whose slot has come
			forwarded, err := p.queue.Forward(p.tb.Context(), partition)
			if err != nil {
				p.tb.Fatal(err)
			}
			more = forwarded.More
		}
		for idle := 0; idle < 2; {
			p.rounds++
			result, err := p.Take(p.tb.Context(), dispatch.TakeRequest{
				Partition: partition, ID: p.announce.ID() + "." + strconv.Itoa(p.rounds), Capacity: 32, Pull: 32,
			})
			if err != nil {
				p.tb.Fatal(err)
			}
			pulled += result.PulledCount
			for _, w := range result.Served {
				for _, g := range w.Grants {
					delivered++
					_, err := p.Settle(p.tb.Context(), g, dispatch.Outcome{Disposition: dispatch.Delivered})
					if err != nil {
						p.tb.Fatal(err)
					}
				}
			}
			if idle++; result.PulledCount > 0 {
				idle = 0
			}
		}
	}
	return delivered, pulled
}

// progress reads how far the pass is.
func progress(ctx context.Context, tb testing.TB, client redis.UniversalClient) retime.Progress {
	tb.Helper()
	p, err := retime.Read(ctx, client)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// A looser policy moves up what waits: by no more wake-ups than one for each user, and one for each delivery.
func TestALooserPolicyMovesUpWhatWaits(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	a, b := newProcess(t, client, old), newProcess(t, client, old)
	const users, each = 30, 10
	for i := range users {
		a.accept(fmt.Sprint("user", i), each)
	}
	if delivered, _ := a.work(); delivered != users {
		t.Fatalf("under one an hour %d were delivered, want %d", delivered, users)
	}

	a.load(newest)
	a.step()
	if got := progress(t.Context(), t, client); got.Version != old || got.UnderWay() {
		t.Fatalf("a pass began before every process had the policy: %+v", got)
	}
	if n, _ := a.work(); n != 0 {
		t.Fatalf("%d were delivered before anybody was woken", n)
	}
	b.load(newest)
	b.step() // it begins the pass
	got := progress(t.Context(), t, client)
	if got.Version != newest || !got.UnderWay() || !got.Everywhere || got.Users != users || got.Left() != users {
		t.Fatalf("want a pass over %d users: %+v", users, got)
	}
	a.step() // it wakes them
	b.step()
	if got := progress(t.Context(), t, client); got.UnderWay() || got.Done != users || got.Left() != 0 {
		t.Fatalf("want the pass to have ended after %d users: %+v", users, got)
	}
	delivered, pulled := a.work()
	n, m := b.work()
	delivered, pulled = delivered+n, pulled+m
	t.Logf("%d users: %d delivered with %d wake-ups", users, delivered, pulled)
	if want := 3 * users; delivered != want {
		t.Errorf("%d were delivered, want %d: four an hour, one of them before", delivered, want)
	}
	if pulled > users+delivered {
		t.Errorf("%d wake-ups for %d deliveries to %d users", pulled, delivered, users)
	}
}

// A stricter policy lets nothing go at the slots of the one before, while it is applied and after: what waits goes back
// to the slots of the new one.
func TestAStricterPolicyLetsNothingGoEarly(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	a, b := newProcess(t, client, brief), newProcess(t, client, brief)
	const users = 20
	acceptEach := func(n int) {
		for i := range users {
			a.accept(fmt.Sprint("user", i), n)
		}
	}
	acceptEach(1) // alone, since a slow machine would reach the slots of the others
	if n, _ := a.work(); n != users {
		t.Fatalf("%d were delivered, want the first of each of %d users", n, users)
	}
	acceptEach(2)
	if slot := a.slots(users); time.Until(slot) > 10*time.Second {
		t.Fatalf("the next goes at %s: want it soon, under %v", slot, limits[brief])
	}
	early := 0
	deliver := func(workers ...*process) {
		for _, p := range workers {
			n, _ := p.work()
			early += n
		}
	}
	a.load(old) // b has the old policy still, and is busy
	a.step()
	deliver(a)
	b.load(old)
	b.step()
	deliver(a, b)
	a.step()
	b.step()
	<-time.After(4 * time.Second) // twice the old window: each old slot has come, and with it its wake-up
	deliver(a, b)
	if early > 0 {
		t.Errorf("%d were delivered before their slots under one an hour", early)
	}
	if got := progress(t.Context(), t, client); got.UnderWay() || got.Done != users {
		t.Errorf("want the pass to have ended: %+v", got)
	}
	if slot := a.slots(users); time.Until(slot) < 59*time.Minute {
		t.Errorf("the next goes at %s, want it in an hour", slot)
	}
}

// slots returns the earliest moment at which the second of any user may go.
func (p *process) slots(users int) (earliest time.Time) {
	p.tb.Helper()
	for i := range users {
		state, err := outlook.Of(p.Agendas).Lookup(p.tb.Context(), fmt.Sprint("user", i, "-1"))
		if err != nil {
			p.tb.Fatal(err)
		}
		if earliest.IsZero() || state.DeliverAt.Before(earliest) {
			earliest = state.DeliverAt
		}
	}
	return earliest
}

// What dies while it wakes users leaves them to another.
func TestAnotherFinishesThePassOfOneThatDied(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	a := newProcess(t, client, old)
	for i := range 20 {
		a.accept(fmt.Sprint("user", i), 2)
	}
	a.work()
	a.load(newest)
	a.step() // it begins the pass
	died := client.HSet(t.Context(), retime.Key, "c0", "died 1", "d0", "3", "c1", "alive 9999999999999999").Err()
	if died != nil {
		t.Fatal(died)
	}
	a.step()
	if got := progress(t.Context(), t, client); !got.UnderWay() {
		t.Fatalf("the pass has ended although another process has partition 1: %+v", got)
	}
	if err := client.HSet(t.Context(), retime.Key, "c1", "alive 1").Err(); err != nil {
		t.Fatal(err)
	}
	a.step()
	if got := progress(t.Context(), t, client); got.UnderWay() || got.Done != 20 {
		t.Errorf("want 20 users done, partition 0 counted once: %+v", got)
	}
	if delivered, _ := a.work(); delivered != 20 {
		t.Errorf("%d were delivered, want the second of each of 20 users", delivered)
	}
}

// A process that keeps the old policy is waited for, but not for ever; and once it has the new one, what it decided by
// the old one is decided again.
func TestALaggardIsWaitedForAndComesAfter(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	a, laggard := newProcess(t, client, old), newProcess(t, client, old)
	a.accept("ada", 10)
	a.work()
	a.load(newest)
	a.step()
	a.now = a.now.Add(retime.Patience - time.Millisecond)
	a.step()
	if got := progress(t.Context(), t, client); got.Version != old || got.UnderWay() {
		t.Fatalf("a pass has begun within %s without the laggard: %+v", retime.Patience, got)
	}
	a.now = a.now.Add(time.Millisecond)
	a.step() // begins without the laggard
	if got := progress(t.Context(), t, client); got.Version != newest || got.Everywhere {
		t.Fatalf("want a pass without the laggard: %+v", got)
	}
	a.step()
	if delivered, _ := laggard.work(); delivered != 0 { // it pulls the wake-up, and decides by the old policy
		t.Fatalf("the laggard delivered %d", delivered)
	}
	a.step()
	if delivered, _ := a.work(); delivered != 0 {
		t.Fatalf("%d were delivered without a wake-up", delivered)
	}
	laggard.load(newest)
	laggard.step()
	a.step()
	laggard.step()
	if got := progress(t.Context(), t, client); !got.Everywhere || got.UnderWay() {
		t.Fatalf("want a second pass, which has ended: %+v", got)
	}
	if delivered, _ := a.work(); delivered != 3 {
		t.Errorf("%d were delivered, want the 3 that the new policy allows", delivered)
	}
}

// A process that starts with another policy than the one by which what waits was decided begins a pass: the policy was
// changed by a restart.
func TestARestartWithAnotherPolicyIsAChange(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	a := newProcess(t, client, old)
	a.accept("ada", 10)
	a.work()
	if err := client.Del(t.Context(), "pacer:{processes}:all").Err(); err != nil { // it has stopped
		t.Fatal(err)
	}
	b := newProcess(t, client, newest)
	b.step()
	b.step()
	if delivered, _ := b.work(); delivered != 3 {
		t.Errorf("%d were delivered, want 3", delivered)
	}
	b.step()
	if got := progress(t.Context(), t, client); got.UnderWay() || got.Version != newest {
		t.Errorf("want the pass to have ended: %+v", got)
	}
}

// A policy with the same limits wakes nobody.
func TestSameLimitsWakeNobody(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	a, b := newProcess(t, client, old), newProcess(t, client, old)
	a.accept("ada", 10)
	a.work()
	for _, p := range []*process{a, b} {
		version := newest
		p.version.Store(&version)
		p.Changed(effective.Change{Before: old, After: newest, SameLimits: true})
		p.step()
		a.step()
		b.step()
	}
	if got := progress(t.Context(), t, client); got.Version != newest || got.Users != 0 {
		t.Errorf("want nobody woken: %+v", got)
	}
}

func TestRateSpreadsTheEndOfQuietHours(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		users, workers int
		over           time.Duration
		held           int
		want           int
	}{
		"AtOnce":       {users: 100_000, workers: 3, want: retime.Rate},
		"Spread":       {users: 6000, workers: 2, over: time.Minute, want: 50},
		"FewElsewhere": {users: 6000, workers: 2, over: time.Minute, held: 600, want: 500},
		"AllElsewhere": {users: 6000, workers: 2, over: time.Minute, held: 9000, want: 50},
		"NeverFaster":  {users: 1_000_000, workers: 1, over: time.Second, want: retime.Rate},
		"NeverNone":    {users: 3, workers: 2, over: time.Hour, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := retime.RateOf(c.users, c.workers, c.over, c.held); got != c.want {
				t.Errorf("%d users a second, want %d", got, c.want)
			}
		})
	}
}
