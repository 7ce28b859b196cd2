package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	goredis "github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// story is a random history of a deployment: notifications are accepted in every way, delivered, fail, are replaced,
// cancelled, expire; workers crash or are late, partitions and all of Redis are lost.
type story struct {
	*world
	t       *testing.T
	random  *rand.Rand
	ids     []string // accepted
	users   map[string]string
	grants  []*dispatch.Grant
	adopted int64 // accepted by processes without metrics, as the relay told
	outside int64 // likewise, as this test did it

	delivered int64 // results of deliveries that were written
}

func (s *story) accept() {
	if s.random.IntN(3) == 0 {
		id := fmt.Sprintf("sql-%d", len(s.ids))
		s.exec(s.t,
			fmt.Sprintf(`SELECT pacer.enqueue('{"id":%q,"user_id":"ada","category":"free","channel":"log","to":"x"}')`,
				id))
		s.ids, s.users[id], s.outside = append(s.ids, id), "ada", s.outside+1
		return
	}
	var batch []*notification.Notification
	for range 1 + s.random.IntN(4) {
		n := &notification.Notification{
			ID: fmt.Sprintf("n-%d", len(s.ids)), UserID: []string{"ada", "ben", "cyd"}[s.random.IntN(3)],
			Category: "free",
			Channel:  notification.ChannelLog, Priority: notification.PriorityNormal,
		}
		if s.random.IntN(3) == 0 {
			n.CollapseKey = "score"
		}
		if s.random.IntN(3) == 0 {
			n.ExpiresAt = time.Now().Add(time.Hour)
		}
		batch = append(batch, n)
		s.ids, s.users[n.ID] = append(s.ids, n.ID), n.UserID
	}
	if _, err := s.store.Accept(s.t.Context(), batch); err != nil {
		s.t.Fatal(err)
	}
}

// take takes the next notification of some user.
func (s *story) take() {
	s.takeOf([]string{"ada", "ben", "cyd"}[s.random.IntN(3)], 1+s.random.IntN(3))
}

func (s *story) takeOf(user string, room int) {
	for _, g := range s.ask(s.t, user, room).Grants {
		if s.claim(s.t, g) {
			s.grants = append(s.grants, g)
		}
	}
}

// settle settles a grant, however old it is.
func (s *story) settle() {
	if len(s.grants) == 0 {
		return
	}
	i := s.random.IntN(len(s.grants))
	g := s.grants[i]
	s.grants = append(s.grants[:i], s.grants[i+1:]...)
	outcome := []dispatch.Outcome{
		{Disposition: dispatch.Delivered, Reason: "delivered"},
		{Disposition: dispatch.Delivered, Reason: "delivered"},
		{Disposition: dispatch.Failed, Reason: "permanent: 400", Failure: true},
		{Disposition: dispatch.Retry, Reason: "transient: 503", Failure: true, RetryAfter: time.Millisecond},
		{
			Disposition: dispatch.Retry, Reason: "throttled: budget", Untried: true, Refund: true,
			RetryAfter: time.Millisecond,
		},
		{Disposition: dispatch.Returned, Reason: "late", Refund: true},
	}[s.random.IntN(6)]
	for range 1 + s.random.IntN(2) { // the second time as if the result had been lost
		settlement, err := s.store.Settle(s.t.Context(), g, outcome)
		if err != nil {
			s.t.Fatal(err)
		}
		if outcome.Disposition != dispatch.Delivered || settlement.Stale {
			return
		}
	}
	s.delivered++
}

// crash ends the lease of a worker, which may still report a result later.
func (s *story) crash() {
	if len(s.grants) == 0 {
		return
	}
	i := s.random.IntN(len(s.grants))
	g := s.grants[i]
	s.exec(s.t, "UPDATE pacer.notifications SET claimed_until = clock_timestamp() - interval '1 second' WHERE id = $1",
		g.Notification.ID)
	if err := s.redis.ZAddXX(s.t.Context(), agenda.PartitionPrefix(g.Partition)+"e", goredis.Z{
		Score: 1, Member: g.Notification.ID,
	}).Err(); err != nil {
		s.t.Fatal(err)
	}
	s.sweepAll()
	if s.random.IntN(2) == 0 {
		s.grants = append(s.grants[:i], s.grants[i+1:]...)
	}
}

func (s *story) cancel() {
	if len(s.ids) == 0 {
		return
	}
	err := s.store.Cancel(s.t.Context(), s.ids[s.random.IntN(len(s.ids))])
	if err != nil && !errors.Is(err, notification.ErrNotWaiting) {
		s.t.Fatal(err)
	}
}

func (s *story) expire() {
	for partition := range storetest.Partitions {
		key := agenda.PartitionPrefix(partition) + "y"
		for _, id := range s.redis.ZRange(s.t.Context(), key, 0, 0).Val() {
			if err := s.redis.ZAddXX(s.t.Context(), key, goredis.Z{Score: 1, Member: id}).Err(); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	s.sweepAll()
}

// sweepAll sweeps the partitions that have their state.
func (s *story) sweepAll() {
	for partition := range storetest.Partitions {
		if _, err := s.agendas.Sweep(s.t.Context(), partition); err != nil && !errors.Is(err, agenda.ErrLost) {
			s.t.Fatal(err)
		}
	}
}

func (s *story) losePartition() {
	keys := s.redis.Keys(s.t.Context(), agenda.PartitionPrefix(s.random.IntN(storetest.Partitions))+"*").Val()
	if len(keys) > 0 {
		if err := s.redis.Del(s.t.Context(), keys...).Err(); err != nil {
			s.t.Fatal(err)
		}
	}
	s.round(s.t)
}

// end lets every notification come to its end.
func (s *story) end() {
	for range 1000 {
		s.round(s.t)
		var open []string
		const openIDs = "SELECT coalesce(array_agg(id), '{}') FROM pacer.notifications WHERE ended_at IS NULL"
		if err := s.pool.QueryRow(s.t.Context(), openIDs).Scan(&open); err != nil {
			s.t.Fatal(err)
		}
		if len(open) == 0 {
			return
		}
		for _, id := range open {
			// After a rebuild, what was being sent comes back at the end of its lease, which here would be in an hour.
			later, wakeups := s.prefixOf(s.users[id])+"r:"+s.users[id], s.prefixOf(s.users[id])+"wakeups"
			pipe := s.redis.Pipeline()
			pipe.ZAddXX(s.t.Context(), later, goredis.Z{Score: 1, Member: id})
			pipe.ZAddXX(s.t.Context(), wakeups, goredis.Z{Score: 1, Member: s.users[id]})
			if _, err := pipe.Exec(s.t.Context()); err != nil {
				s.t.Fatal(err)
			}
		}
		s.sweepAll()
		for _, user := range []string{"ada", "ben", "cyd"} {
			s.takeOf(user, 100)
		}
		for len(s.grants) > 0 {
			s.settle()
		}
		s.exec(s.t,
			`UPDATE pacer.notifications SET claimed_until = clock_timestamp() - interval '1 second'
			WHERE status = 'sending'`)
		for partition := range storetest.Partitions {
			key := agenda.PartitionPrefix(partition) + "e"
			for _, id := range s.redis.ZRange(s.t.Context(), key, 0, -1).Val() {
				if err := s.redis.ZAddXX(s.t.Context(), key, goredis.Z{Score: 1, Member: id}).Err(); err != nil {
					s.t.Fatal(err)
				}
			}
		}
		s.sweepAll()
	}
	s.t.Errorf("something never ends: %v", s.differences(s.t))
}

// Whatever happens, the totals agree with a count of the rows in Postgres, and with what was delivered.
func TestTotalsAreExact(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("Seed", seed), func(t *testing.T) {
			t.Parallel()
			s := &story{t: t, random: rand.New(rand.NewPCG(seed, 0)), users: map[string]string{}}
			s.world = newWorldWith(t, redistest.Client(t), agenda.Config{
				MaxCrashes: storetest.MaxCrashes, Lease: time.Hour,
			})
			s.relay = postgres.NewRelay(s.store, postgres.RelayConfig{
				Check:   func(*notification.Notification) error { return nil },
				Windows: func(string) time.Duration { return time.Hour },
				Adopted: func(_ string, n int64) { s.adopted += n },
			})
			steps := []func(){
				s.accept, s.accept, s.take, s.take, s.take, s.settle, s.settle, s.crash, s.cancel, s.expire,
				s.sweepAll, func() { s.round(t) },
			}
			for i := range 150 {
				steps[s.random.IntN(len(steps))]()
				if i%40 == 39 {
					[]func(){s.losePartition, func() { s.flush(t) }, func() {
						if _, err := s.relay.Rebuild(t.Context()); err != nil {
							t.Fatal(err)
						}
					}}[s.random.IntN(3)]()
				}
			}
			s.end()
			s.round(t)
			var want stats.Totals
			if err := s.pool.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE status = 'delivered'),
				count(*) FILTER (WHERE status = 'failed'), count(*) FILTER (WHERE status = 'expired'),
				count(*) FILTER (WHERE status = 'cancelled'), count(*) FILTER (WHERE status = 'replaced'), sum(attempts)
				FROM pacer.notifications`).Scan(&want.Accepted, &want.Delivered, &want.Failed, &want.Expired,
				&want.Cancelled,
				&want.Replaced, &want.Attempts); err != nil {
				t.Fatal(err)
			}
			s.wantHistory(t)
			got := s.stats(t).Totals
			got.Pulls, got.Deferrals = 0, 0 // Redis counts them
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the totals differ (-Postgres +totals):\n%s", diff)
			}
			if want.Accepted != int64(len(s.ids)) || want.Delivered != s.delivered || s.adopted != s.outside {
				t.Errorf("%d of %d are accepted, %d of %d delivered, %d of %d adopted", want.Accepted, len(s.ids),
					want.Delivered, s.delivered,
					s.adopted, s.outside)
			}
			var rows int
			if err := s.pool.QueryRow(t.Context(), "SELECT count(*) FROM pacer.tallies").Scan(&rows); err != nil ||
				rows > 2 {
				t.Errorf("%d rows are added up at each request, %v", rows, err)
			}
		})
	}
}

// wantHistory checks that the history adds up to the totals, and that the relay has put what is old enough together.
func (w *world) wantHistory(t *testing.T) {
	t.Helper()
	hours, err := w.store.History(t.Context(), time.Now().Add(-2*time.Hour), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	var sum stats.Totals
	for _, h := range hours {
		sum.Accepted, sum.Delivered = sum.Accepted+h.Accepted, sum.Delivered+h.Delivered
		sum.Failed += h.Failed
		sum.Expired, sum.Cancelled = sum.Expired+h.Expired, sum.Cancelled+h.Cancelled
		sum.Replaced, sum.Deferrals = sum.Replaced+h.Replaced, sum.Deferrals+h.Deferred
	}
	totals := w.stats(t).Totals
	totals.Pulls, totals.Attempts = 0, 0
	if diff := cmp.Diff(totals, sum); diff != "" {
		t.Errorf("the history does not add up to the totals (totals -, history +):\n%s", diff)
	}
}

// What is older than a month is forgotten, whatever its category; the totals keep it.
func TestTheHistoryForgetsAfterAMonth(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	w.accept(t, "ada", "free", 3)
	w.round(t)
	w.accept(t, "ben", "free", 1)
	w.round(t)
	w.wantHistory(t)
	w.exec(t, "UPDATE pacer.history SET hour = hour - interval '32 days', category = 'gone'")
	if _, err := w.relay.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	var rows int
	if err := w.pool.QueryRow(t.Context(), "SELECT count(*) FROM pacer.history").Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d rows are left, %v", rows, err)
	}
	if got := w.stats(t).Totals.Accepted; got != 4 {
		t.Errorf("the total is %d, want 4", got)
	}
}

// Redis counts pulls and deferrals. Their counts survive a loss of Redis.
func TestPullsAndDeferralsSurviveALoss(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	w.accept(t, "ada", "free", 20)
	w.deliverAll(t)
	w.accept(t, "ada", "slow", 2)
	w.deliver(t, "ada")
	if in := w.wakesIn(t, "ada"); in < time.Minute {
		t.Fatalf("not deferred: the wake-up comes in %s", in)
	}
	want := w.stats(t).Totals
	if want.Pulls != int64(w.pulled) || want.Pulls == 0 || want.Deferrals != 1 {
		t.Fatalf("%d pulls and %d deferrals, want %d and 1", want.Pulls, want.Deferrals, w.pulled)
	}
	for name, lose := range map[string]func(){
		"rebuild": func() {
			if _, err := w.relay.Rebuild(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"flush": func() {
			w.round(t)
			w.flush(t)
		},
		"epoch": func() {
			if err := w.redis.Del(t.Context(), w.prefix()+"epoch").Err(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		lose()
		for range 2 {
			w.round(t)
			w.wantHistory(t)
			if got := w.stats(t).Totals; got.Pulls != want.Pulls || got.Deferrals != want.Deferrals {
				t.Errorf("after %s: %d pulls and %d deferrals, want %d and %d", name, got.Pulls, got.Deferrals,
					want.Pulls, want.Deferrals)
			}
		}
	}
	w.accept(t, "ben", "free", 5)
	if got := w.deliverAll(t); len(got) != 5 {
		t.Errorf("delivered %v, want the 5 of ben", got)
	}
	if got := w.stats(t).Totals; got.Pulls != int64(w.pulled) || got.Pulls == want.Pulls {
		t.Errorf("%d pulls, want %d, more than %d", got.Pulls, w.pulled, want.Pulls)
	}
}

// afterCounts is a hook that does something once the counts of the partitions have been read.
type afterCounts struct {
	do func()
}

// DialHook implements [goredis.Hook].
func (*afterCounts) DialHook(next goredis.DialHook) goredis.DialHook { return next }

// ProcessHook implements [goredis.Hook].
func (*afterCounts) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook { return next }

// ProcessPipelineHook implements [goredis.Hook].
func (a *afterCounts) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		err := next(ctx, cmds)
		if do := a.do; do != nil && cmds[len(cmds)-1].Name() == "hgetall" {
			a.do = nil
			do()
		}
		return err
	}
}

// A deployment goes on while it is rebuilt: what is counted up to the moment at which its partitions stop is noted.
func TestARebuildNotesTheLastCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	w.accept(t, "ada", "free", 3)
	read := false
	w.redis.AddHook(&afterCounts{do: func() {
		w.pull(t, w.agendas.PartitionOf("ada"))
		read = true
	}})
	if _, err := w.relay.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.stats(t).Totals.Pulls; got != int64(w.pulled) || !read {
		t.Errorf("%d pulls, want %d", got, w.pulled)
	}
	if got := w.deliverAll(t); len(got) != 3 {
		t.Errorf("delivered %v, want 3", got)
	}
}

// Each deferral is counted once, whatever is lost: not again when the first take after a rebuild blocks the backlog.
// What was accepted while Redis was lost, and what comes after the rebuild, counts when it is deferred.
func TestADeferralIsCountedOnceWhateverIsLost(t *testing.T) {
	t.Parallel()
	w := endWorld(t)
	want := int64(0)
	check := func(when string, more int64) {
		t.Helper()
		want += more
		w.deliverAll(t)
		w.round(t)
		w.wantHistory(t)
		if got := w.stats(t).Totals.Deferrals; got != want {
			t.Errorf("%s: %d deferrals, want %d", when, got, want)
		}
	}
	w.accept(t, "ada", "chat", 5) // two a minute
	check("at first", 3)
	if _, err := w.relay.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("after a rebuild", 0)
	w.flush(t)
	w.acceptOne(t, notification.Notification{ID: "free"})
	w.accept(t, "ben", "slow", 3) // one an hour
	w.round(t)
	check("after a loss", 2)
	if counts := w.stats(t); counts.Deferred != 5 || counts.Queued != 0 {
		t.Errorf("after a loss %d are deferred and %d queued, want 5 and none", counts.Deferred, counts.Queued)
	}
	w.exec(t, "UPDATE pacer.attempts SET admitted_at = admitted_at - 61000000 WHERE category = 'chat'")
	w.flush(t)
	w.round(t)
	w.acceptOn(t, notification.ChannelLog, "ada", "chat", "new")
	check("when a minute has passed", 1) // two of the three go
	if counts := w.stats(t); counts.Deferred != 4 {
		t.Errorf("when a minute has passed %d are deferred, want 4", counts.Deferred)
	}
	w.clear(t, "ada", "chat")
	check("when the windows are cleared", 0)
	if counts := w.stats(t); counts.Deferred != 2 || counts.Queued != 0 {
		t.Errorf("at last %d are deferred and %d queued, want 2 and none", counts.Deferred, counts.Queued)
	}
}

// A notification that was deferred, then tried and is to be tried again, or is under way, is not counted again when it
// is deferred after a rebuild.
func TestADeferralBeforeAnAttemptIsCountedOnce(t *testing.T) {
	t.Parallel()
	for name, retries := range map[string]bool{"Retrying": true, "InFlight": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := endWorld(t)
			w.accept(t, "ada", "slow", 2)
			w.deliverAll(t)
			w.clear(t, "ada", "slow")
			granted := w.take(t, "ada")
			if granted == nil {
				t.Fatal("the second is not granted")
			}
			again := dispatch.Outcome{Disposition: dispatch.Retry, Reason: "transient: 503", RetryAfter: time.Minute}
			if retries {
				w.settle(t, granted, again)
			}
			w.round(t)
			w.flush(t)
			w.round(t)
			if !retries {
				w.settle(t, granted, again)
			}
			w.comeDue(t, "ada")
			if got := w.deliverAll(t); len(got) > 0 {
				t.Fatalf("%v went, want it deferred", got)
			}
			w.round(t)
			if got := w.stats(t); got.Totals.Deferrals != 1 || got.Deferred != 1 {
				t.Errorf("%d deferrals, and %d are deferred; want 1 and 1", got.Totals.Deferrals, got.Deferred)
			}
		})
	}
}
