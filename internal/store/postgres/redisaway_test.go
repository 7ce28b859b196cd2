package postgres_test

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/test/redistest"
)

// A Redis that does not respond takes none of the time that extending the claim has.
func TestAClaimIsExtendedWhileRedisHangs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	w := newWorldWith(t, server.Client(t), agenda.Config{MaxCrashes: 1000, Lease: time.Hour})
	w.acceptOne(t, notification.Notification{ID: "long"})
	g := w.take(t, "ada")
	w.exec(t, "UPDATE pacer.notifications SET claimed_until = clock_timestamp() - interval '1 second'")
	if err := server.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := w.store.Extend(ctx, g); err == nil {
		t.Error("the lease is extended in a Redis that hangs")
	}
	if err := server.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	var held bool
	err := w.pool.QueryRow(t.Context(), "SELECT claimed_until > clock_timestamp() FROM pacer.notifications").Scan(&held)
	if err != nil || !held {
		t.Errorf("the claim holds: %t, %v", held, err)
	}
}

// A list without what Redis knows says so: what waits in it looks queued, and is maybe not.
func TestAListSaysThatRedisDidNotRespond(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	w := newWorldWith(t, server.Client(t), agenda.Config{})
	w.acceptOne(t, notification.Notification{ID: "n1", SendAt: time.Now().Add(time.Hour)})
	store := postgres.New(w.pool, w.agendas, postgres.Config{PlacePatience: 10 * time.Millisecond})
	t.Cleanup(func() { _ = store.Close() })
	noted := func() bool {
		page, err := store.List(t.Context(), notification.Filter{Limit: 10})
		if err != nil || len(page.Items) != 1 {
			t.Fatalf("listed %+v, %v", page, err)
		}
		if page.Partial != page.Items[0].Partial {
			t.Errorf("of a page that is partial: %t, the only item is: %t", page.Partial, page.Items[0].Partial)
		}
		return page.Partial && strings.Contains(page.Note, "Redis did not respond")
	}
	if err := server.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if !noted() {
		t.Error("the list says nothing of a Redis that hangs")
	}
	if err := server.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.await(t, "the list has all again", func() bool { return !noted() })
}

// What is in Postgres counts, not how often Redis was not told of it.
func TestResultsThatRedisMissesAreNoCrashes(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, redistest.Client(t), agenda.Config{MaxCrashes: 2})
	w.acceptOne(t, notification.Notification{ID: "n1"})
	for range 3 {
		g := w.take(t, "ada")
		if g == nil {
			t.Fatal("it is not granted")
		}
		w.exec(t, `UPDATE pacer.notifications SET status = 'retrying', not_before = admitted_at,
			claimed_until = NULL, failures = failures + 1`)
		w.lapseInRedis(t, "n1")
		w.sweep(t)
		w.comeDue(t, "ada")
	}
	w.round(t)
	w.wantStatus(t, "n1", "retrying")
	w.wantEnds(t, 0)
}

// One that was returned after failures has waited since its retry was due, also for a Redis that lost it.
func TestReturnedAfterFailuresIsNotOverdue(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, redistest.Client(t), agenda.Config{
		MaxCrashes: 1000,
		Settings:   func(string, string) agenda.Settings { return agenda.Settings{MaxDefer: time.Hour} },
	})
	w.acceptOne(t, notification.Notification{ID: "n1"})
	w.settle(t, w.take(t, "ada"), dispatch.Outcome{
		Disposition: dispatch.Retry, Reason: "transient: 503", Failure: true, RetryAfter: time.Millisecond,
	})
	w.exec(t, "UPDATE pacer.notifications SET accepted_at = accepted_at - interval '2 hours'")
	w.comeDue(t, "ada")
	w.settle(t, w.take(t, "ada"), dispatch.Outcome{Disposition: dispatch.Returned, Reason: "late", Refund: true})
	w.flush(t)
	w.round(t)
	w.comeDue(t, "ada")
	if g := w.take(t, "ada"); g == nil {
		t.Error("it is not granted again")
	}
	w.wantStatus(t, "n1", "sending")
}
