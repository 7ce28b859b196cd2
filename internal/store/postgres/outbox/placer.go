package outbox

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/semaphore"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/batch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/store/postgres/seam"
)

const (
	// placeLeast is how many notifications a single one counts as, because it has a goroutine of its own.
	placeLeast = 16
)

// Placer puts notifications that Postgres has accepted into their backlogs on Redis. The accepting transaction has
// noted them in the outbox, so a Placer may die, fail or hang at any step: the relay places what is left.
type Placer struct {
	stores  *seam.Stores
	ends    *Ends
	most    int64
	room    *semaphore.Weighted
	acks    *batch.Batcher[[]string, int]
	running sync.WaitGroup
	closing atomic.Bool

	mu         sync.Mutex
	partitions map[int]*partitionProgress
}

// partitionProgress shows whether the Redis of a partition makes progress.
type partitionProgress struct {
	underWay int       // placings
	moved    time.Time // when a placing last began or ended
}

// Placing puts what one statement accepted into the backlogs of one partition.
type Placing struct {
	partition int
	entries   []agenda.Entry
	optedOut  []string
	done      chan struct{} // closed when they are placed, or left to the relay
	dropped   []string      // those that overflow ladders ended at once, once it is done
}

// Dropped reports whether it is known that an overflow ladder has ended a notification as it was placed.
func (w *Placing) Dropped(id string) bool {
	select {
	case <-w.done:
		return slices.Contains(w.dropped, id)
	default:
		return false
	}
}

// Inserted is what the database did with a notification.
type Inserted struct {
	// Fresh is true for a notification that was accepted now, at a moment and with an arrival; else First is the one
	// that has its id.
	Fresh, OptedOut bool
	At              time.Time
	Arrival         int64
	First           *notification.Notification
	// Placing puts it into its backlog; nil when the relay has to.
	Placing *Placing
}

// statement is what one statement accepted. The last of its placings to end removes its rows from the outbox.
type statement struct {
	ids      []string
	underWay atomic.Int32
	// left is true when one of its notifications could not be placed.
	left atomic.Bool
	free func() // gives its part of the room back
}

// NewPlacer makes a Placer, which has so many notifications on their way to Redis at most. Close it after use.
func NewPlacer(stores *seam.Stores, ends *Ends, room int64) *Placer {
	p := &Placer{
		stores: stores, ends: ends, most: room, room: semaphore.NewWeighted(room),
		partitions: map[int]*partitionProgress{},
	}
	p.acks = batch.New(100, p.acknowledge)
	return p
}

// Place starts to put the newly accepted notifications of a batch into their backlogs, and notes their placings.
func (p *Placer) Place(ctx context.Context, accepted []*notification.Notification, results []Inserted) {
	partitions := map[int][]int{} // the indexes of what is new in each
	s := &statement{}
	for i, n := range accepted {
		if results[i].Fresh {
			s.ids = append(s.ids, n.ID)
			partition := p.stores.Agendas.PartitionOf(n.UserID)
			partitions[partition] = append(partitions[partition], i)
		}
	}
	if len(s.ids) == 0 || p.closing.Load() {
		return
	}
	weight := int64(max(placeLeast, min(len(s.ids), int(p.most))))
	if !p.room.TryAcquire(weight) {
		return
	}
	s.free = func() { p.room.Release(weight) }
	s.underWay.Store(int32(len(partitions)))
	ctx = context.WithoutCancel(ctx)
	for partition, indexes := range partitions {
		w := newPlacing(partition, indexes, accepted, results)
		p.begin(partition)
		p.running.Go(func() { p.run(ctx, s, w) })
	}
}

// newPlacing makes the placing of the notifications that have the given indexes, and notes it in their results.
func newPlacing(partition int, indexes []int, accepted []*notification.Notification, results []Inserted) *Placing {
	w := &Placing{
		partition: partition, entries: make([]agenda.Entry, len(indexes)), done: make(chan struct{}),
	}
	for entry, i := range indexes {
		w.entries[entry] = agenda.EntryOf(accepted[i], 0)
		w.entries[entry].Arrival = results[i].Arrival
		if results[i].OptedOut {
			w.optedOut = append(w.optedOut, accepted[i].ID)
		}
		results[i].Placing = w
	}
	return w
}

// run does one placing. The last placing of its statement finishes the statement.
func (p *Placer) run(ctx context.Context, s *statement, w *Placing) {
	if !p.putIntoBacklogs(ctx, w) {
		s.left.Store(true)
	}
	p.end(w.partition)
	close(w.done)
	if s.underWay.Add(-1) > 0 {
		return
	}
	s.free()
	if err := p.finish(ctx, s); err != nil {
		p.stores.Log.WarnContext(ctx,
			"could not note that accepted notifications are in their backlogs; the relay will check them",
			"count", len(s.ids), "error", err)
	}
}

// hurryOutboxSQL has the relay take up rows of the outbox at once.
const hurryOutboxSQL = "UPDATE pacer.outbox SET due_at = clock_timestamp() WHERE key = ANY ($1)"

// finish removes the rows of a statement from the outbox, or leaves them to the relay. When the relay has removed them
// already, it looked before the notifications were placed here: one that was cancelled in between was in no backlog
// then, and is noted anew.
func (p *Placer) finish(ctx context.Context, s *statement) error {
	if s.left.Load() {
		_, err := p.stores.DB.Exec(ctx, hurryOutboxSQL, s.rows())
		return err
	}
	removed, err := p.acks.Do(ctx, s.rows())
	if err == nil && removed*outboxRow < len(s.ids) {
		_, err = p.stores.DB.Exec(ctx, noteEndedSQL, s.ids)
	}
	return err
}

// putIntoBacklogs puts accepted notifications into their backlogs, with their wake-ups, and reports whether it could
// put all of them there.
func (p *Placer) putIntoBacklogs(ctx context.Context, w *Placing) bool {
	all := true
	for part := range slices.Chunk(w.entries, agenda.EntriesAtOnce) {
		if p.closing.Load() {
			return false
		}
		placed, err := p.stores.Agendas.Accept(ctx, w.partition, part)
		for i := range placed {
			if placed[i].Dropped {
				w.dropped = append(w.dropped, part[i].ID)
			}
		}
		if err != nil {
			p.stores.Log.WarnContext(ctx, "could not put accepted notifications into their backlogs; the relay will put them there",
				"count",
				len(part), "partition", w.partition, "error", err)
			all = false
		}
	}
	for _, id := range w.optedOut {
		if err := p.ends.End(ctx, id, notification.StatusCancelled, notification.ReasonOptedOut); err != nil {
			p.stores.Log.WarnContext(ctx,
				"could not cancel a notification that its user opted out of; the next worker to take it cancels it",
				"notification_id", id, "error", err)
		}
	}
	return all
}

// rows returns the keys of the statement's rows in the outbox: the smallest id. A statement of more ids than a row
// holds wrote several rows, each named by one of the ids; then rows gives all of them.
func (s *statement) rows() []string {
	if len(s.ids) > outboxRow {
		return s.ids
	}
	return []string{slices.Min(s.ids)}
}

// acknowledgeSQL removes the rows of placed notifications from the outbox, and returns their keys.
const acknowledgeSQL = finishSQL + " RETURNING key"

// acknowledge removes the rows of many statements, and returns how many each had. The database may forget that in a
// crash; then the relay places the notifications again.
func (p *Placer) acknowledge(ctx context.Context, statements [][]string) ([]int, error) {
	ctx, cancel := limited.Bounded(ctx, p.stores.StatementTimeout)
	defer cancel()
	removed := map[string]bool{}
	b := &pgx.Batch{} // one round trip, one transaction
	b.Queue("SELECT set_config('synchronous_commit', 'off', true), " + limited.SetLockWait)
	b.Queue(acknowledgeSQL, slices.Concat(statements...)).Query(func(rows pgx.Rows) error {
		var key string
		_, err := pgx.ForEachRow(rows, []any{&key}, func() error { removed[key] = true; return nil })
		return err
	})
	if err := p.stores.Pool.SendBatch(ctx, b).Close(); err != nil {
		return nil, limited.Describe("note that accepted notifications are in their backlogs", err)
	}
	counts := make([]int, len(statements))
	for i, rows := range statements {
		for _, key := range rows {
			if removed[key] {
				counts[i]++
			}
		}
	}
	return counts, nil
}

// Wait waits for placings, for PlacePatience at most. It does not wait for a partition whose Redis is stalled.
func (p *Placer) Wait(ctx context.Context, under []*Placing) {
	patience := time.NewTimer(p.stores.PlacePatience)
	defer patience.Stop()
	for _, w := range under {
		if p.Stalled(w.partition) {
			continue
		}
		select {
		case <-w.done:
		case <-patience.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (p *Placer) begin(partition int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.partitions[partition]
	if l == nil {
		l = &partitionProgress{}
		p.partitions[partition] = l
	}
	if l.underWay == 0 {
		l.moved = time.Now()
	}
	l.underWay++
}

func (p *Placer) end(partition int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.partitions[partition]
	l.underWay--
	l.moved = time.Now()
}

// Stalled reports whether placings of a partition are under way, and none has begun or ended for PlacePatience.
func (p *Placer) Stalled(partition int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.partitions[partition]
	return l != nil && l.underWay > 0 && time.Since(l.moved) > p.stores.PlacePatience
}

// Close waits for the steps under way. The relay places the rest.
func (p *Placer) Close() {
	p.closing.Store(true)
	p.running.Wait()
	p.acks.Close()
}
