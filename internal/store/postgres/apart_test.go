package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/internal/store/postgres/connect"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// counter counts the statements that contain a text.
type counter struct {
	text string
	n    atomic.Int64
}

// TraceQueryStart implements [pgx.QueryTracer].
func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, c.text) {
		c.n.Add(1)
	}
	return ctx
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (*counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// countedWorld is an endWorld that counts its statements with a text.
func countedWorld(t *testing.T, text string, change ...func(*postgres.Config)) (*world, *counter) {
	t.Helper()
	c := &counter{text: text}
	w := newWorldOn(t, redistest.Client(t), agenda.Config{MaxCrashes: storetest.MaxCrashes, Lease: time.Hour},
		postgrestest.URL(t), func(config *pgxpool.Config) {
			connect.Direct(config)
			config.ConnConfig.Tracer = c
		}, change...)
	return w, c
}

// granted has notifications of ada accepted, granted and claimed.
func (w *world) granted(t *testing.T, n int) []*dispatch.Grant {
	t.Helper()
	for i := range n {
		w.acceptOne(t, notification.Notification{ID: fmt.Sprintf("n%d", i)})
	}
	grants := w.ask(t, "ada", n).Grants
	if len(grants) != n {
		t.Fatalf("%d of %d are granted", len(grants), n)
	}
	for _, g := range grants {
		if !w.claim(t, g) {
			t.Fatalf("%s is not claimed", g.Notification.ID)
		}
	}
	return grants
}

// refuseReason has Postgres refuse rows of a reason.
func (w *world) refuseReason(t *testing.T, reason string) {
	t.Helper()
	w.exec(t, "ALTER TABLE pacer.notifications ADD CONSTRAINT refused CHECK (reason <> '"+reason+"')")
}

// together runs a step for each of n requests. All but the first join one statement: the first has to wait for a lock
// until the others have come.
func (w *world) together(t *testing.T, n int, step func(i int)) {
	t.Helper()
	tx, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE pacer.notifications IN SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	var steps, begun sync.WaitGroup
	steps.Go(func() { step(0) })
	for waits := false; !waits; {
		if err := w.pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_database d
			ON d.oid = l.database WHERE NOT l.granted AND d.datname = current_database())`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	for i := 1; i < n; i++ {
		begun.Add(1)
		steps.Go(func() {
			begun.Done()
			step(i)
		})
	}
	begun.Wait()
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	steps.Wait()
}

// codeOf is the code of Postgres's error; empty without one.
func codeOf(err error) string {
	failed, _ := errors.AsType[*pgconn.PgError](err)
	if failed == nil {
		return ""
	}
	return failed.Code
}

// Results are written many in a statement. One that Postgres refuses must not fail those of others: they have been
// delivered, and would be delivered again.
func TestAResultThatIsRefusedHarmsNoOther(t *testing.T) {
	t.Parallel()
	const n, bad = 40, 17
	w, statements := countedWorld(t, "took_us, untried")
	grants := w.granted(t, n)
	w.refuseReason(t, "bad")
	w.together(t, n, func(i int) {
		o := delivered
		if i == bad {
			o.Reason = "bad"
		}
		_, err := w.store.Settle(t.Context(), grants[i], o)
		if want := map[bool]string{true: "23514"}[i == bad]; codeOf(err) != want || (err != nil) != (i == bad) {
			t.Errorf("settling %d gives %v, want the code %q", i, err, want)
		}
	})
	for i, g := range grants {
		w.wantStatus(t, g.Notification.ID, map[bool]string{false: "delivered", true: "sending"}[i == bad])
	}
	if made := statements.n.Load(); made > 2+2*6 {
		t.Errorf("%d results with one bad take %d statements", n, made)
	}
	if s := w.settle(t, grants[bad], delivered); s.Stale {
		t.Error("the one that was refused can't be settled any more")
	}
}

// Results are not written one by one for a Postgres that does not respond: that would take a time-out each.
func TestResultsAreApartOnlyForAValue(t *testing.T) {
	t.Parallel()
	const n = 20
	w, statements := countedWorld(t, "took_us, untried")
	grants := w.granted(t, n)
	store := postgres.New(w.pool, w.agendas, postgres.Config{StatementTimeout: 100 * time.Millisecond})
	t.Cleanup(func() { _ = store.Close() })
	tx, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE pacer.notifications IN SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	var settling sync.WaitGroup
	for _, g := range grants {
		settling.Go(func() {
			if _, err := store.Settle(t.Context(), g, delivered); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("settling %s while Postgres stands still gives %v", g.Notification.ID, err)
			}
		})
	}
	settling.Wait()
	if made := statements.n.Load(); made > n {
		t.Errorf("%d results take %d statements, more than one each", n, made)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// What a provider or Redis says may be no text that Postgres takes. It is kept as far as it is one, and the same result
// again is known.
func TestTextsFromOutsideAreKept(t *testing.T) {
	t.Parallel()
	w := endWorld(t)
	grants := w.granted(t, 2)
	end := dispatch.Outcome{
		Disposition: dispatch.Failed, Reason: "permanent: 4\x0000", Reply: "caf\xe9 \x00 no", Failure: true,
	}
	for range 2 {
		if s := w.settle(t, grants[0], end); s.Stale {
			t.Error("its own result is stale")
		}
	}
	v, err := w.store.View(t.Context(), grants[0].Notification.ID)
	if err != nil {
		t.Fatal(err)
	}
	if v.Reason != "permanent: 4\uFFFD00" || v.Detail != "caf\uFFFD \uFFFD no" {
		t.Errorf("it is %s: %q, %q", v.Status, v.Reason, v.Detail)
	}

	n := grants[1].Notification
	if err := w.store.NoteDelivery(t.Context(), n, notification.Delivery{
		DeviceID: "phone", Outcome: "permanent: \xff", Reply: "\x00",
	}); err != nil {
		t.Errorf("a device's delivery: %v", err)
	}
	if err := w.store.Deactivate(t.Context(), &notification.Device{UserID: "ada", ID: "phone"}, time.Time{},
		"gone\x00"); err != nil {
		t.Errorf("a device that is gone: %v", err)
	}
}

// A history in Redis that is no text must not keep others from being claimed, nor its own notification.
func TestAHistoryThatIsNoTextIsClaimed(t *testing.T) {
	t.Parallel()
	w := endWorld(t)
	for _, id := range []string{"good", "bad", "fine"} {
		w.acceptOne(t, notification.Notification{ID: id})
	}
	const line = "1700000000000000 retrying 1700000000000001 transient: 503\tcaf\xe9\x00\n"
	if err := w.redis.HSet(t.Context(), w.prefix()+"n:bad", "h", line).Err(); err != nil {
		t.Fatal(err)
	}
	grants := w.ask(t, "ada", 3).Grants
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second) // a claim that is refused is tried for a minute
	defer cancel()
	w.together(t, len(grants), func(i int) {
		if ok, err := w.store.Claim(ctx, grants[i]); !ok || err != nil {
			t.Errorf("claiming %s gives %t, %v", grants[i].Notification.ID, ok, err)
		}
	})
	var kept string
	if err := w.pool.QueryRow(t.Context(), "SELECT history FROM pacer.notifications WHERE id = 'bad'").
		Scan(&kept); err != nil || !strings.HasSuffix(kept, "transient: 503\tcaf\uFFFD\uFFFD\n") {
		t.Errorf("its history is kept as %q, %v", kept, err)
	}
}

// Ends that Redis decided are written many in a statement, too. One that is refused stays in Redis, and comes again.
func TestAnEndThatIsRefusedHarmsNoOther(t *testing.T) {
	t.Parallel()
	w := endWorld(t)
	ends := map[string]string{
		"good": "E1700000000000000 expired", "bad": "E1700000000000000 bad",
		"text": "F1700000000000000 a\xff\x00\tb\xff",
	}
	for id, end := range ends {
		w.acceptOne(t, notification.Notification{ID: id})
		if err := w.redis.HSet(t.Context(), w.prefix()+"z", id, end).Err(); err != nil {
			t.Fatal(err)
		}
	}
	w.refuseReason(t, "bad")
	w.round(t)
	w.wantStatus(t, "good", "expired")
	w.wantStatus(t, "text", "failed")
	w.wantStatus(t, "bad", "waiting")
	w.wantEnds(t, 1)
}

// A batch of a producer in which one notification holds what Postgres refuses: the others are accepted, whether they
// are inserted or copied, in their order, and in the statement of many callers.
func TestANotificationThatIsRefusedHarmsNoOther(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*postgres.Config){
		"Inserted": func(*postgres.Config) {}, "Copied": copies,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := countedWorld(t, "INSERT", change)
			all := variedBatch(t, 60)
			all[20].Title, all[40].Body, all[41].Data = "\x00", "\xff", []byte("{")
			bad := map[int]bool{20: true, 40: true, 41: true}
			accepted, err := w.store.Accept(t.Context(), all)
			if err != nil {
				t.Fatal(err)
			}
			last := map[string]int64{}
			for i, a := range accepted {
				user := all[i].UserID
				if errors.Is(a.Err, intake.ErrUnstorable) != bad[i] || all[i].CreatedAt.IsZero() != bad[i] || a.Known ||
					!bad[i] && all[i].Arrival <= last[user] {
					t.Errorf("notification %d is accepted as %+v, after %d", i, a, last[user])
				}
				last[user] = all[i].Arrival
			}
			var kept int
			if err := w.pool.QueryRow(t.Context(), "SELECT count(*) FROM pacer.notifications").Scan(&kept); err != nil ||
				kept != len(all)-len(bad) {
				t.Errorf("%d are kept, %v", kept, err)
			}
			singly := variedBatch(t, 20)
			singly[7].Title = "\x00"
			w.together(t, len(singly), func(i int) {
				accepted, err := w.store.Accept(t.Context(), singly[i:i+1])
				if err != nil || errors.Is(accepted[0].Err, intake.ErrUnstorable) != (i == 7) {
					t.Errorf("by itself, notification %d is accepted as %+v, %v", i, accepted, err)
				}
			})
			w.round(t) // some are replaced
			var wait int
			if err := w.pool.QueryRow(t.Context(), "SELECT count(*) FROM pacer.notifications WHERE ended_at IS NULL").
				Scan(&wait); err != nil || wait != w.inBacklogs(t)+w.scheduled(t) || wait < kept {
				t.Errorf("%d wait in Postgres, %v, and in Redis %d and %d", wait, err, w.inBacklogs(t), w.scheduled(t))
			}
		})
	}
}

// scheduled is how many notifications wait for their send_at.
func (w *world) scheduled(t *testing.T) int {
	t.Helper()
	counts, err := outlook.Of(w.agendas).Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return int(counts.Scheduled)
}
