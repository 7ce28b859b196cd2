package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/pacer-notify/pacer/internal/batch"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/columns"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/store/postgres/outbox"
	"github.com/pacer-notify/pacer/internal/store/postgres/seam"
)

const (
	// insertBatch is about how many notifications of a larger batch one statement accepts.
	insertBatch = 500
	// lockedFor is for how long an id that was found locked is kept out of the shared statements.
	lockedFor = 2 * time.Second
	// inserters is how many such statements of one batch are under way at once.
	inserters = 2
)

// arrivalBlock is how many arrivals one value of pacer.arrivals stands for, see the migration.
const arrivalBlock = 100

// arrivalBlocks is how many values of pacer.arrivals a batch needs. Its n-th notification has the arrival
// blocks[n / arrivalBlock] + n % arrivalBlock.
func arrivalBlocks(batch []*notification.Notification) int {
	return (len(batch) + arrivalBlock - 1) / arrivalBlock
}

// insertSQL accepts the notifications whose ids and idempotency keys are new. It returns when each of those was
// accepted, its arrival, and whether its user has opted out of it. Of two notifications in one statement the first has
// the lower arrival, which decides the order, and which of two with the same collapse key is newer. $18 is 'yes' when
// the process counts in its own metrics what it accepts, $19 how many blocks of arrivals it takes. All processes insert
// in the order of the keys and ids: one that is being accepted elsewhere is waited for, and two statements with the
// same ids in different order would wait for each other.
const insertSQL = `
WITH begun AS MATERIALIZED (SELECT clock_timestamp() AS at, set_config('pacer.counted', $18, true),
	` + limited.SetLockWait + `,
	ARRAY (SELECT nextval('pacer.arrivals') FROM generate_series(1, $19)) AS blocks)
INSERT INTO pacer.notifications AS n (` + columns.GivenColumns + `, accepted_at, arrival)
SELECT ` + columns.GivenColumns + `, begun.at, begun.blocks[1 + (place - 1) / 100] + (place - 1) % 100
FROM begun, unnest(` + columns.GivenArrays + `) WITH ORDINALITY AS a(` + columns.GivenColumns + `, place)
ORDER BY idempotency_key, id, place
ON CONFLICT DO NOTHING
RETURNING n.id, n.accepted_at, n.arrival, ` + columns.OptedOutSQL

// accepting is the part of the store that accepts.
type accepting struct {
	stores *seam.Stores
	cfg    Config
	// connections bounds how many of the pool's producers use, so that deliveries find one; waiting has those of them
	// wait that meet a lock.
	connections *semaphore.Weighted
	waiting     limited.Patient
	locked      sync.Map // the keys and ids that were found locked a moment ago
	// counted is insertSQL's parameter that says whether this process counts what it accepts.
	counted string
	inserts limited.Joined[*notification.Notification, outbox.Inserted]
	placer  *outbox.Placer
	readier *readier
}

func newAccepting(stores *seam.Stores, ends *outbox.Ends, cfg Config) *accepting {
	a := &accepting{
		stores: stores, cfg: cfg, counted: "yes", waiting: limited.NewPatient(stores.Pool),
		connections: semaphore.NewWeighted(max(1, int64(stores.Pool.Config().MaxConns)/2)),
		placer:      outbox.NewPlacer(stores, ends, cfg.PlaceRoom), readier: newReadier(stores.Pool),
	}
	if cfg.Apart {
		a.counted = "no"
	}
	a.inserts = limited.Join(500, a.insertApart)
	return a
}

func (a *accepting) close() {
	a.inserts.Close()
	a.readier.close()
	a.placer.Close()
}

// Accept implements [intake.Store]. A notification is accepted once the database has committed it, whatever Redis does.
// A large batch is divided, so that one part is inserted while another is put into its backlogs.
func (a *accepting) Accept(ctx context.Context, batch []*notification.Notification) ([]intake.Accepted, error) {
	accepted := make([]intake.Accepted, len(batch))
	others, err := a.acceptHeld(ctx, batch, accepted)
	if err != nil {
		return nil, err
	}
	if others, err = a.refuseOverflow(ctx, batch, others, accepted); err != nil {
		return nil, err
	}
	var parts errgroup.Group
	parts.SetLimit(inserters)
	for _, part := range a.partsOf(batch, others) {
		parts.Go(func() error { return a.acceptPart(ctx, batch, part, accepted) })
	}
	if err := parts.Wait(); err != nil {
		return nil, err
	}
	return accepted, nil
}

// partsOf divides those of a batch that have the given indexes by partitions, so that the notifications of a user keep
// their order. A batch in which an id comes twice is not divided: two statements would wait for each other.
func (a *accepting) partsOf(batch []*notification.Notification, of []int) [][]int {
	partitions := map[int][]int{}
	ids := make(map[string]struct{}, len(of))
	for _, i := range of {
		n := batch[i]
		partition := a.stores.Agendas.PartitionOf(n.UserID)
		partitions[partition] = append(partitions[partition], i)
		ids[n.ID] = struct{}{}
	}
	enough := insertBatch
	if len(ids) < len(of) {
		enough = len(of)
	}
	var parts [][]int
	var part []int
	for _, partition := range slices.Sorted(maps.Keys(partitions)) {
		if part = append(part, partitions[partition]...); len(part) >= enough {
			parts, part = append(parts, part), nil
		}
	}
	if len(part) > 0 {
		parts = append(parts, part)
	}
	for _, part := range parts {
		slices.Sort(part) // the ids that pacer makes grow, and the index is fastest in their order
	}
	return parts
}

// acceptPart accepts the notifications of a batch that have the given indexes.
func (a *accepting) acceptPart(ctx context.Context, batch []*notification.Notification, part []int,
	accepted []intake.Accepted,
) error {
	notifications := make([]*notification.Notification, len(part))
	for i, index := range part {
		notifications[i] = batch[index]
	}
	var under []*outbox.Placing
	for i, o := range a.insertAll(ctx, notifications) {
		switch {
		case limited.ValueRefused(o.Err):
			a.stores.Log.WarnContext(ctx, "Postgres refused a notification because of a value in it; the notification is not accepted",
				"notification_id", notifications[i].ID, "error", o.Err)
			accepted[part[i]] = intake.Accepted{Err: intake.ErrUnstorable}
			continue
		case limited.LockedOut(o.Err):
			a.stores.Log.WarnContext(ctx, "another transaction in the database locks a notification; the notification is not accepted",
				"notification_id", notifications[i].ID)
			accepted[part[i]] = intake.Accepted{Err: o.Err}
			continue
		case o.Err != nil:
			return o.Err
		}
		if o.Result.Fresh {
			notifications[i].CreatedAt, notifications[i].Arrival = o.Result.At, o.Result.Arrival
		}
		accepted[part[i]] = intake.Accepted{Known: !o.Result.Fresh, First: o.Result.First}
		if p := o.Result.Placing; p != nil && !slices.Contains(under, p) {
			under = append(under, p)
		}
	}
	a.placer.Wait(ctx, under)
	for _, i := range part {
		dropped := func(p *outbox.Placing) bool { return p.Dropped(batch[i].ID) }
		if !accepted[i].Known {
			batch[i].Dropped = slices.ContainsFunc(under, dropped)
		}
	}
	return nil
}

// insertAll inserts a single notification together with those of other callers, and many in a statement of their own.
// Those that are locked are then tried again by themselves. What many left untried is not, to keep their order.
func (a *accepting) insertAll(
	ctx context.Context, all []*notification.Notification,
) []batch.Outcome[outbox.Inserted] {
	var outcomes []batch.Outcome[outbox.Inserted]
	if len(all) > 1 {
		outcomes = a.insertApart(ctx, all)
	} else if _, locked := a.locked.Load(lockedName(all[0])); locked {
		return a.insertAlone(ctx, all)
	} else {
		result, err := a.inserts.Do(ctx, all[0])
		outcomes = []batch.Outcome[outbox.Inserted]{{Result: result, Err: err}}
	}
	var locked sync.WaitGroup
	for i, o := range outcomes {
		if limited.LockedOut(o.Err) && (len(all) == 1 || !errors.Is(o.Err, limited.ErrLocked)) {
			locked.Go(func() { outcomes[i] = a.insertAlone(ctx, all[i:i+1])[0] })
		}
	}
	locked.Wait()
	return outcomes
}

// insertAlone inserts a notification that may be locked.
func (a *accepting) insertAlone(
	ctx context.Context, one []*notification.Notification,
) []batch.Outcome[outbox.Inserted] {
	var outcomes []batch.Outcome[outbox.Inserted]
	id := one[0].ID
	err := a.waiting.Do(ctx, func() error {
		outcomes = a.insertApart(ctx, one)
		a.noteLocked(lockedName(one[0]), limited.LockedOut(outcomes[0].Err))
		return outcomes[0].Err
	})
	if limited.LockedOut(err) {
		err = limited.Describe("accept notification "+id, err)
	}
	if err != nil {
		return []batch.Outcome[outbox.Inserted]{{Err: err}}
	}
	return outcomes
}

// lockedName is what a notification is found locked by: its idempotency key, which its repeats have in common, or its
// id.
func lockedName(n *notification.Notification) string {
	if n.IdempotencyKey != "" {
		return "key " + n.IdempotencyKey
	}
	return n.ID
}

// noteLocked notes whether a key or an id was found locked.
func (a *accepting) noteLocked(name string, locked bool) {
	kept, _ := a.locked.Load(name)
	timer, known := kept.(*time.Timer)
	switch {
	case !locked:
		a.locked.Delete(name)
	case known:
		timer.Reset(lockedFor)
	default:
		a.locked.Store(name, time.AfterFunc(lockedFor, func() { a.locked.Delete(name) }))
	}
}

// insertApart inserts notifications in one statement. When Postgres refuses that for a value, or it is locked out, it
// takes the statement apart, until those that can't be inserted are by themselves.
func (a *accepting) insertApart(
	ctx context.Context, all []*notification.Notification,
) []batch.Outcome[outbox.Inserted] {
	ctx, cancel := limited.Bounded(ctx, a.cfg.AcceptTimeout)
	defer cancel()
	var since time.Time
	return batch.Divide(all, func(part []*notification.Notification) ([]outbox.Inserted, error) {
		if !since.IsZero() && time.Since(since) > limited.SiftTime {
			return nil, limited.ErrLocked
		}
		results, err := a.insert(ctx, part)
		if limited.LockedOut(err) && since.IsZero() {
			since = time.Now()
		}
		return results, err
	}, limited.RefusedAlone)
}

// insert accepts notifications, all of them or none. Other statements look up those that were accepted before.
func (a *accepting) insert(ctx context.Context, batch []*notification.Notification) ([]outbox.Inserted, error) {
	if err := a.connections.Acquire(ctx, 1); err != nil {
		return nil, a.notAccepted(ctx, "accept notifications", err)
	}
	defer a.connections.Release(1)
	results, err := a.write(ctx, batch)
	if err == nil {
		a.placer.Place(ctx, batch, results)
	}
	if err == nil && slices.ContainsFunc(results, func(result outbox.Inserted) bool { return !result.Fresh }) {
		if err = a.findHolders(ctx, batch, results); err == nil {
			err = a.findKnown(ctx, batch, results)
		}
	}
	if err != nil {
		return nil, a.notAccepted(ctx, "accept notifications", err)
	}
	return results, nil
}

// notAccepted describes an error of a step of accepting. When the step was too late, it has a connection made ready for
// the next one, which goes on when the step has returned.
func (a *accepting) notAccepted(ctx context.Context, what string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		a.readier.begin(ctx)
	}
	return limited.Describe(what, err)
}

// write writes the notifications whose ids are new. The results of the others stay empty.
func (a *accepting) write(ctx context.Context, batch []*notification.Notification) ([]outbox.Inserted, error) {
	if a.copies(batch) {
		results, err := a.copyRows(ctx, batch)
		if !errors.Is(err, errIDTaken) {
			return results, err
		}
	}
	return a.insertRows(ctx, batch)
}

// insertRows inserts rows in one statement, which leaves those out that are there.
func (a *accepting) insertRows(ctx context.Context, batch []*notification.Notification) ([]outbox.Inserted, error) {
	results := make([]outbox.Inserted, len(batch))
	places := make(map[string]int, len(batch)) // of the first with an id
	for i, n := range slices.Backward(batch) {
		places[n.ID] = i
	}
	rows, err := a.stores.Pool.Query(ctx, insertSQL, append(columns.GivenArgs(batch), a.counted, arrivalBlocks(batch))...)
	if err != nil {
		return nil, err
	}
	var id string
	var found outbox.Inserted
	_, err = pgx.ForEachRow(rows, []any{&id, &found.At, &found.Arrival, &found.OptedOut}, func() error {
		found.Fresh = true
		results[places[id]] = found
		return nil
	})
	return results, err
}

// findHolders fills in the results of notifications whose idempotency keys others have taken meanwhile.
func (a *accepting) findHolders(
	ctx context.Context, batch []*notification.Notification, results []outbox.Inserted,
) error {
	var keys []string
	for i, n := range batch {
		if !results[i].Fresh && n.IdempotencyKey != "" {
			keys = append(keys, n.IdempotencyKey)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	held, err := a.holders(ctx, keys)
	for i, n := range batch {
		if first := held[n.IdempotencyKey]; !results[i].Fresh && first != nil {
			results[i] = outbox.Inserted{First: first}
		}
	}
	return err
}

// findKnown fills in the results of notifications whose ids were accepted before.
func (a *accepting) findKnown(
	ctx context.Context, batch []*notification.Notification, results []outbox.Inserted,
) error {
	var ids []string
	places := map[string][]int{}
	for i, n := range batch {
		if !results[i].Fresh && results[i].First == nil {
			ids = append(ids, n.ID)
			places[n.ID] = append(places[n.ID], i)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	known, err := a.known(ctx, ids)
	if err != nil {
		return err
	}
	for i := range known {
		first := &known[i].Notification
		for _, at := range places[first.ID] {
			results[at] = outbox.Inserted{First: first}
		}
		delete(places, first.ID)
	}
	if len(places) > 0 {
		return errPurged
	}
	return nil
}

// known reads notifications that were accepted before.
func (a *accepting) known(ctx context.Context, ids []string) ([]row, error) {
	rows, err := a.stores.Pool.Query(ctx, viewsSQL, ids)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanRow)
}

// errPurged says that a notification kept an id from being accepted again, and was gone before it could be read.
var errPurged = errors.New("a notification with the same id was purged just now; try again")
