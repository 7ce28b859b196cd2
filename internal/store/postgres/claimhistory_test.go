package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/test/redistest"
)

// held is the outcome of a delivery that was not tried, because the provider's host is not called at the moment.
var held = dispatch.Outcome{
	Disposition: dispatch.Retry, Reason: "throttled: breaker_open", Refund: true, Untried: true, RetryAfter: time.Hour,
}

// historyWorld has a notification b of ada, and no limits.
func historyWorld(t *testing.T) *world {
	t.Helper()
	w := newWorldWith(t, redistest.Client(t), agenda.Config{
		MaxCrashes: 1000, Lease: time.Hour,
		Settings: func(string, string) agenda.Settings { return agenda.Settings{MaxDefer: time.Hour} },
	})
	w.acceptOne(t, notification.Notification{ID: "b"})
	return w
}

// hold has a worker take b, and its provider hold it, so many times.
func (w *world) hold(t *testing.T, times int) {
	t.Helper()
	for range times {
		g := w.take(t, "ada")
		if g == nil {
			t.Fatal("b is not granted")
		}
		w.settle(t, g, held)
		w.exec(t, "UPDATE pacer.notifications SET not_before = admitted_at")
		w.comeDue(t, "ada")
	}
}

// loseRedis empties Redis, and has the partitions rebuilt.
func (w *world) loseRedis(t *testing.T) {
	t.Helper()
	w.flush(t)
	if _, err := w.relay.RebuildLost(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// historyOf reads the history that the row of a notification keeps.
func (w *world) historyOf(t *testing.T, id string) (history string) {
	t.Helper()
	if err := w.pool.QueryRow(t.Context(), "SELECT history FROM pacer.notifications WHERE id = $1", id).
		Scan(&history); err != nil {
		t.Fatal(err)
	}
	return history
}

// wantTold checks that the row of b, and its view, tell of so many holds, and of each once.
func (w *world) wantTold(t *testing.T, inRow, inView int) {
	t.Helper()
	lines := slices.Collect(strings.Lines(w.historyOf(t, "b")))
	if n := len(lines); n != inRow {
		t.Errorf("the row tells of %d holds, want %d", n, inRow)
	}
	if n := len(slices.Compact(slices.Sorted(slices.Values(lines)))); n != len(lines) {
		t.Errorf("the row has %d lines, and %d different ones", len(lines), n)
	}
	view, err := w.store.View(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	told := slices.DeleteFunc(view.Timeline, func(e notification.Event) bool { return e.Kind != "held" })
	if len(told) != inView {
		t.Errorf("the view tells of %d holds, want %d", len(told), inView)
	}
}

// Each time that Redis is lost it forgets what it told of a notification. The row keeps that, and takes each line that
// Redis tells from then on once.
func TestHistoryTellsEachHoldOnceAfterALoss(t *testing.T) {
	t.Parallel()
	w := historyWorld(t)
	w.hold(t, 4) // the row learns of a hold when the notification is claimed again
	w.wantTold(t, 3, 4)
	w.loseRedis(t)
	w.wantTold(t, 3, 3)
	w.hold(t, 3)
	w.wantTold(t, 5, 6)
	w.loseRedis(t)
	w.hold(t, 3)
	w.wantTold(t, 7, 8)
}

// What was adopted from Redis has a history of which the rebuilt partitions know nothing.
func TestHistoryTellsEachHoldOnceAfterAnAdoption(t *testing.T) {
	t.Parallel()
	w := historyWorld(t)
	now := time.Now().UnixMicro()
	w.exec(t, fmt.Sprintf("UPDATE pacer.notifications SET status = 'retrying', generation = 1, "+
		"not_before = extract(epoch FROM now()) * 1000000, history = E'%d held %d throttled: breaker_open\\t\\n'", now, now))
	w.loseRedis(t)
	w.hold(t, 3)
	w.wantTold(t, 3, 4)
}

// However often Redis is lost, and however much a provider replies, the row stays small. It keeps what is oldest.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	w := historyWorld(t)
	for loss := range 12 {
		// Redis has told as much as it keeps, and the first claims after a loss have not.
		lines := ""
		for line := range 70 {
			lines += fmt.Sprintf("%d held %d throttled: breaker_open\t\n", 1000+loss*100+line, loss)
		}
		w.hold(t, 1)
		if err := w.redis.HSet(t.Context(), w.prefix()+"n:b", "h", lines).Err(); err != nil {
			t.Fatal(err)
		}
		w.hold(t, 3)
		w.loseRedis(t)
	}
	history := w.historyOf(t, "b")
	if len(history) > 13_000 {
		t.Errorf("the row keeps %d bytes of history", len(history))
	}
	lines := slices.Collect(strings.Lines(history))
	if n := len(slices.Compact(slices.Sorted(slices.Values(lines)))); n != len(lines) {
		t.Errorf("the row has %d lines, and %d different ones", len(lines), n)
	}
}
