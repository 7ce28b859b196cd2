package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/test/redistest"
)

// variedBatch has notifications with ids that pacer made, and everything in them that a row can hold.
func variedBatch(t *testing.T, n int) []*notification.Notification {
	t.Helper()
	batch := make([]*notification.Notification, n)
	for i := range batch {
		id, err := uuid.NewV7()
		if err != nil {
			t.Fatal(err)
		}
		batch[i] = &notification.Notification{
			ID: id.String(), UserID: fmt.Sprintf("user-%d", i%7), Category: "free", Channel: notification.ChannelLog,
			Priority: notification.Priority(1 + i%4),
		}
		x := batch[i]
		switch i % 3 {
		case 1:
			x.To, x.Title, x.Body, x.TraceParent = "\\N", "tab\tand \"quote\"", "line\nof\r\n\\.\n€ 漢", "00-aa-bb-01"
			x.Data, x.Override = json.RawMessage(`{"a": [1, "\n"]}`), json.RawMessage(`{"b":null}`)
		case 2:
			x.SendAt = time.Date(2099, 12, 31, 23, 59, 59, 123456789, time.UTC)
			x.ExpiresAt, x.CollapseKey, x.GroupKey = x.SendAt.Add(time.Hour), fmt.Sprintf("key-%d", i), "g"
		}
	}
	return batch
}

// rowsOf reads the rows of a batch as JSON, without their ids, moments of acceptance and arrivals.
func (w *world) rowsOf(t *testing.T, batch []*notification.Notification) []map[string]any {
	t.Helper()
	rows := make([]map[string]any, len(batch))
	for i, n := range batch {
		if err := w.pool.QueryRow(t.Context(), `SELECT to_jsonb(n) - '{id,accepted_at,arrival}'::text[]
			FROM pacer.notifications n WHERE id = $1 AND accepted_at = $2 AND arrival = $3`, n.ID, n.CreatedAt, n.Arrival).Scan(&rows[i]); err != nil {
			t.Fatalf("read %s, accepted at %s: %v", n.ID, n.CreatedAt, err)
		}
	}
	return rows
}

// acceptInOrder accepts a batch, all of it new, and checks that each one's arrival is higher than the one's before.
func (w *world) acceptInOrder(t *testing.T, store *postgres.Store, batch []*notification.Notification) {
	t.Helper()
	accepted, err := store.Accept(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range accepted {
		if a.Known {
			t.Errorf("%s was known", batch[i].ID)
		}
	}
	ofUser := map[string]int64{}
	for _, n := range batch {
		if n.Arrival <= ofUser[n.UserID] {
			t.Errorf("%s of %s was not accepted after the one before it", n.ID, n.UserID)
		}
		ofUser[n.UserID] = n.Arrival
	}
}

// copying is a process that copies whatever it accepts.
func (w *world) copying(t *testing.T) (*process, *batches) {
	t.Helper()
	cfg := postgres.Config{}
	copies(&cfg)
	return w.traced(t, cfg)
}

// traced is a process whose batches of statements are seen.
func (w *world) traced(t *testing.T, cfg postgres.Config) (*process, *batches) {
	t.Helper()
	seen := &batches{}
	config := w.pool.Config()
	config.ConnConfig.Tracer = seen
	traced := *w
	var err error
	if traced.pool, err = pgxpool.NewWithConfig(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(traced.pool.Close)
	cfg.AcceptTimeout, cfg.PlacePatience = time.Minute, time.Minute
	return traced.process(t, cfg, func(*process) error { return nil }), seen
}

// batches sees which batches of statements a process sends, and breaks the connection before one.
type batches struct {
	mu     sync.Mutex
	sent   map[string]int // by a statement of theirs
	breaks string
}

// breakAt breaks the connection before the next batch with a statement.
func (b *batches) breakAt(sql string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.breaks = sql
}

// count is how many batches had a statement.
func (b *batches) count(sql string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sent[sql]
}

// TraceQueryStart implements pgx.QueryTracer.
func (*batches) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*batches) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements pgx.BatchTracer.
func (b *batches) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, q := range data.Batch.QueuedQueries {
		if b.sent == nil {
			b.sent = map[string]int{}
		}
		b.sent[q.SQL]++
		if q.SQL == b.breaks {
			b.breaks = ""
			_ = conn.PgConn().Conn().Close() // as if the network did
		}
	}
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer.
func (*batches) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (*batches) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// A row that was copied is the same as one that was inserted.
func TestACopiedRowIsAsAnInsertedOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	copied, inserted := variedBatch(t, 150), variedBatch(t, 150)
	w.acceptInOrder(t, w.store, copied) // as many as are copied by default, once they are divided
	each := w.process(t, postgres.Config{CopyLeast: 1000, AcceptTimeout: time.Minute},
		func(*process) error { return nil })
	w.acceptInOrder(t, each.store, inserted)
	if diff := cmp.Diff(w.rowsOf(t, inserted), w.rowsOf(t, copied)); diff != "" {
		t.Errorf("rows differ (-inserted +copied):\n%s", diff)
	}
	w.wantNothingLeft(t)
}

// A batch of which some were accepted before, or of which one id comes twice, is accepted as far as it is new.
func TestACopyOfWhatIsKnownInsertsTheRest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	p, seen := w.copying(t)
	first, more := variedBatch(t, 40), variedBatch(t, 20)
	w.acceptInOrder(t, p.store, first)
	if seen.count("COMMIT") == 0 {
		t.Fatal("nothing was copied")
	}
	again := slices.Concat(first[:10], more, first[30:], more[:1])
	accepted, err := p.store.Accept(t.Context(), again)
	if err != nil {
		t.Fatal(err)
	}
	fresh := 0
	for i, a := range accepted {
		if !a.Known {
			fresh++
		} else if a.First == nil || a.First.ID != again[i].ID {
			t.Errorf("%s is known as %v", again[i].ID, a.First)
		}
	}
	if fresh != len(more) && fresh != len(more)+1 { // both places of an id that came twice may say that it is new
		t.Errorf("%d are new, want %d", fresh, len(more))
	}
	var rows int
	if err := w.pool.QueryRow(t.Context(), "SELECT count(*) FROM pacer.notifications").Scan(&rows); err != nil {
		t.Fatal(err)
	}
	if want := len(first) + len(more); rows != want {
		t.Errorf("there are %d rows, want %d", rows, want)
	}
	w.round(t)
	w.wantNothingLeft(t)
}

// What a user has opted out of is cancelled at once, also when it was copied.
func TestACopiedNotificationThatNobodyWantsIsCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	if err := w.store.OptOut(t.Context(), "user-3", "free"); err != nil {
		t.Fatal(err)
	}
	p, _ := w.copying(t)
	batch := variedBatch(t, 70)
	w.acceptInOrder(t, p.store, batch)
	w.await(t, "all of user-3 are cancelled, and no others", func() bool {
		var of string
		if err := w.pool.QueryRow(t.Context(), `SELECT string_agg(DISTINCT user_id || ' ' || reason, ',')
			FROM pacer.notifications WHERE status = 'cancelled'`).Scan(&of); err != nil {
			return false // none yet
		}
		var waiting int
		if err := w.pool.QueryRow(t.Context(), `SELECT count(*) FROM pacer.notifications
			WHERE status = 'waiting' AND user_id = 'user-3'`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		if of != "user-3 opted_out" {
			t.Fatalf("cancelled %q", of)
		}
		return waiting == 0
	})
}

// A connection that is lost before the commit of a copy leaves nothing behind, and the same batch is then accepted
// once.
func TestACopyThatIsNotCommittedLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	p, seen := w.copying(t)
	for _, step := range []string{"BEGIN", "COMMIT"} {
		batch := variedBatch(t, 30)
		seen.breakAt(step)
		if _, err := p.store.Accept(t.Context(), batch); err == nil {
			t.Errorf("accepted although the connection was lost before its %s", step)
		}
		w.acceptInOrder(t, p.store, batch) // all of it is new
	}
	w.round(t)
	w.wantNothingLeft(t)
}

// By default a large batch of ids that pacer made is copied; a small one, and one of other ids, is not.
func TestWhatIsCopied(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	p, seen := w.traced(t, postgres.Config{})
	for _, c := range []struct {
		name  string
		batch []*notification.Notification
		want  int
	}{
		{"OwnIDs", batchOf("ada", "free", 150), 0},
		{"Small", variedBatch(t, 99), 0},
		{"Large", variedBatch(t, 100), 1},
	} {
		before := seen.count("COMMIT")
		w.acceptInOrder(t, p.store, c.batch)
		if got := seen.count("COMMIT") - before; got != c.want {
			t.Errorf("%s: %d copies, want %d", c.name, got, c.want)
		}
	}
}
