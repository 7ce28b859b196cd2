package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	goredis "github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/test/redistest"
)

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
