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

	"github.com/pacer-notify/pacer/internal/batch"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

const (
	// insertBatch is about how many notifications of a larger batch one statement accepts.
	insertBatch = 500
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
// the lower arrival, which decides the order, and which of two with the same collapse key is newer. $17 is 'yes' when
// the process counts in its own metrics what it accepts, $18 how many blocks of arrivals it takes. All processes insert
// in the order of the keys and ids: one that is being accepted elsewhere is waited for, and two statements with the
// same ids in different order would wait for each other.
const insertSQL = `
WITH begun AS MATERIALIZED (SELECT clock_timestamp() AS at, set_config('pacer.counted', $17, true),
	` + setLockWait + `,
	ARRAY (SELECT nextval('pacer.arrivals') FROM generate_series(1, $18)) AS blocks)
INSERT INTO pacer.notifications AS n (` + givenColumns + `, accepted_at, arrival)
SELECT ` + givenColumns + `, begun.at, begun.blocks[1 + (place - 1) / 100] + (place - 1) % 100
FROM begun, unnest(` + givenArrays + `) WITH ORDINALITY AS a(` + givenColumns + `, place)
ORDER BY idempotency_key, id, place
ON CONFLICT DO NOTHING
RETURNING n.id, n.accepted_at, n.arrival, ` + optedOutSQL

// insertResult is what the database did with a notification.
type insertResult struct {
	// fresh is true for a notification that was accepted now, at a moment and with an arrival; else first is the one
	// that has its id.
	fresh, optedOut bool
	at              time.Time
	arrival         int64
	first           *notification.Notification
	// placing puts it into its backlog; nil when the relay has to.
	placing *placing
}

// Accept implements [intake.Store]. A notification is accepted once the database has committed it, whatever Redis does.
// A large batch is divided, so that one part is inserted while another is put into its backlogs.
func (s *Store) Accept(ctx context.Context, batch []*notification.Notification) ([]intake.Accepted, error) {
	accepted := make([]intake.Accepted, len(batch))
	others, err := s.acceptHeld(ctx, batch, accepted)
	if err != nil {
		return nil, err
	}
	var parts errgroup.Group
	parts.SetLimit(inserters)
	for _, part := range s.partsOf(batch, others) {
		parts.Go(func() error { return s.acceptPart(ctx, batch, part, accepted) })
	}
	if err := parts.Wait(); err != nil {
		return nil, err
	}
	return accepted, nil
}

// partsOf divides those of a batch that have the given indexes by partitions, so that the notifications of a user keep
// their order. A batch in which an id comes twice is not divided: two statements would wait for each other.
func (s *Store) partsOf(batch []*notification.Notification, of []int) [][]int {
	partitions := map[int][]int{}
	ids := make(map[string]struct{}, len(of))
	for _, i := range of {
		n := batch[i]
		partition := s.agendas.PartitionOf(n.UserID)
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
func (s *Store) acceptPart(ctx context.Context, batch []*notification.Notification, part []int,
	accepted []intake.Accepted,
) error {
	notifications := make([]*notification.Notification, len(part))
	for i, index := range part {
		notifications[i] = batch[index]
	}
	var under []*placing
	for i, o := range s.insertAll(ctx, notifications) {
		switch {
		case valueRefused(o.Err):
			s.cfg.Log.WarnContext(ctx, "Postgres refused a notification because of a value in it; the notification is not accepted",
				"notification_id", notifications[i].ID, "error", o.Err)
			accepted[part[i]] = intake.Accepted{Err: intake.ErrUnstorable}
			continue
		case limited.LockedOut(o.Err):
			s.cfg.Log.WarnContext(ctx, "another transaction in the database locks a notification; the notification is not accepted",
				"notification_id", notifications[i].ID)
			accepted[part[i]] = intake.Accepted{Err: o.Err}
			continue
		case o.Err != nil:
			return o.Err
		}
		if o.Result.fresh {
			notifications[i].CreatedAt, notifications[i].Arrival = o.Result.at, o.Result.arrival
		}
		accepted[part[i]] = intake.Accepted{Known: !o.Result.fresh, First: o.Result.first}
		if p := o.Result.placing; p != nil && !slices.Contains(under, p) {
			under = append(under, p)
		}
	}
	s.placer.wait(ctx, under)
	return nil
}

// insertAll inserts a single notification together with those of other callers, and many in a statement of their own.
// Those that are locked are then tried again by themselves. What many left untried is not, to keep their order.
func (s *Store) insertAll(ctx context.Context, all []*notification.Notification) []batch.Outcome[insertResult] {
	var outcomes []batch.Outcome[insertResult]
	if len(all) > 1 {
		outcomes = s.insertApart(ctx, all)
	} else if _, locked := s.locked.Load(lockedName(all[0])); locked {
		return s.insertAlone(ctx, all)
	} else {
		result, err := s.inserts.Do(ctx, all[0])
		outcomes = []batch.Outcome[insertResult]{{Result: result, Err: err}}
	}
	var locked sync.WaitGroup
	for i, o := range outcomes {
		if limited.LockedOut(o.Err) && (len(all) == 1 || !errors.Is(o.Err, limited.ErrLocked)) {
			locked.Go(func() { outcomes[i] = s.insertAlone(ctx, all[i:i+1])[0] })
		}
	}
	locked.Wait()
	return outcomes
}

// insertAlone inserts a notification that may be locked.
func (s *Store) insertAlone(ctx context.Context, one []*notification.Notification) []batch.Outcome[insertResult] {
	var outcomes []batch.Outcome[insertResult]
	id := one[0].ID
	err := s.lockedAccepts.Do(ctx, func() error {
		outcomes = s.insertApart(ctx, one)
		s.noteLocked(lockedName(one[0]), limited.LockedOut(outcomes[0].Err))
		return outcomes[0].Err
	})
	if limited.LockedOut(err) {
		err = describe("accept notification "+id, err)
	}
	if err != nil {
		return []batch.Outcome[insertResult]{{Err: err}}
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
func (s *Store) noteLocked(name string, locked bool) {
	kept, _ := s.locked.Load(name)
	timer, known := kept.(*time.Timer)
	switch {
	case !locked:
		s.locked.Delete(name)
	case known:
		timer.Reset(lockedFor)
	default:
		s.locked.Store(name, time.AfterFunc(lockedFor, func() { s.locked.Delete(name) }))
	}
}

// insertApart inserts notifications in one statement. When Postgres refuses that for a value, or it is locked out, it
// takes the statement apart, until those that can't be inserted are by themselves.
func (s *Store) insertApart(ctx context.Context, all []*notification.Notification) []batch.Outcome[insertResult] {
	ctx, cancel := bounded(ctx, s.cfg.AcceptTimeout)
	defer cancel()
	var since time.Time
	return batch.Divide(all, func(part []*notification.Notification) ([]insertResult, error) {
		if !since.IsZero() && time.Since(since) > siftTime {
			return nil, limited.ErrLocked
		}
		results, err := s.insert(ctx, part)
		if limited.LockedOut(err) && since.IsZero() {
			since = time.Now()
		}
		return results, err
	}, refusedAlone)
}

// insert accepts notifications, all of them or none. Other statements look up those that were accepted before.
func (s *Store) insert(ctx context.Context, batch []*notification.Notification) ([]insertResult, error) {
	if err := s.accepting.Acquire(ctx, 1); err != nil {
		return nil, s.notAccepted(ctx, "accept notifications", err)
	}
	defer s.accepting.Release(1)
	results, err := s.write(ctx, batch)
	if err == nil {
		s.placer.place(ctx, batch, results)
	}
	if err == nil && slices.ContainsFunc(results, func(result insertResult) bool { return !result.fresh }) {
		if err = s.findHolders(ctx, batch, results); err == nil {
			err = s.findKnown(ctx, batch, results)
		}
	}
	if err != nil {
		return nil, s.notAccepted(ctx, "accept notifications", err)
	}
	return results, nil
}

// notAccepted describes an error of a step of accepting. When the step was too late, it has a connection made ready for
// the next one, which goes on when the step has returned.
func (s *Store) notAccepted(ctx context.Context, what string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		s.readier.begin(ctx)
	}
	return describe(what, err)
}

// write writes the notifications whose ids are new. The results of the others stay empty.
func (s *Store) write(ctx context.Context, batch []*notification.Notification) ([]insertResult, error) {
	if s.copies(batch) {
		results, err := s.copyRows(ctx, batch)
		if !errors.Is(err, errIDTaken) {
			return results, err
		}
	}
	return s.insertRows(ctx, batch)
}

// insertRows inserts rows in one statement, which leaves those out that are there.
func (s *Store) insertRows(ctx context.Context, batch []*notification.Notification) ([]insertResult, error) {
	results := make([]insertResult, len(batch))
	places := make(map[string]int, len(batch)) // of the first with an id
	for i, n := range slices.Backward(batch) {
		places[n.ID] = i
	}
	rows, err := s.pool.Query(ctx, insertSQL, append(givenArgs(batch), s.counted, arrivalBlocks(batch))...)
	if err != nil {
		return nil, err
	}
	var id string
	var found insertResult
	_, err = pgx.ForEachRow(rows, []any{&id, &found.at, &found.arrival, &found.optedOut}, func() error {
		found.fresh = true
		results[places[id]] = found
		return nil
	})
	return results, err
}

// findHolders fills in the results of notifications whose idempotency keys others have taken meanwhile.
func (s *Store) findHolders(ctx context.Context, batch []*notification.Notification, results []insertResult) error {
	var keys []string
	for i, n := range batch {
		if !results[i].fresh && n.IdempotencyKey != "" {
			keys = append(keys, n.IdempotencyKey)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	held, err := s.holders(ctx, keys)
	for i, n := range batch {
		if first := held[n.IdempotencyKey]; !results[i].fresh && first != nil {
			results[i] = insertResult{first: first}
		}
	}
	return err
}

// findKnown fills in the results of notifications whose ids were accepted before.
func (s *Store) findKnown(ctx context.Context, batch []*notification.Notification, results []insertResult) error {
	var ids []string
	places := map[string][]int{}
	for i, n := range batch {
		if !results[i].fresh && results[i].first == nil {
			ids = append(ids, n.ID)
			places[n.ID] = append(places[n.ID], i)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	known, err := s.known(ctx, ids)
	if err != nil {
		return err
	}
	for i := range known {
		first := &known[i].Notification
		for _, at := range places[first.ID] {
			results[at] = insertResult{first: first}
		}
		delete(places, first.ID)
	}
	if len(places) > 0 {
		return errPurged
	}
	return nil
}

// known reads notifications that were accepted before.
func (s *Store) known(ctx context.Context, ids []string) ([]row, error) {
	rows, err := s.pool.Query(ctx, viewsSQL, ids)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanRow)
}

// errPurged says that a notification kept an id from being accepted again, and was gone before it could be read.
var errPurged = errors.New("a notification with the same id was purged just now; try again")
