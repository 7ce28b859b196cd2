package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/plural"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

// rebuildLock is the advisory lock of the process that rebuilds: "rebuild" in ASCII.
const rebuildLock = 0x72656275696c64

// rebuildPoll is how often [Relay.Rebuild] looks whether the rebuild of another process has ended.
const rebuildPoll = 100 * time.Millisecond

// Rebuilt is what a rebuild did.
type Rebuilt struct {
	Partitions []int
	// Waiting is how many notifications were put back into their backlogs, InFlight how many of the others are with
	// their workers.
	Waiting, InFlight int
	// Windows is how many backlogs had their admissions counted again.
	Windows int
	Took    time.Duration
}

// RebuildLost rebuilds the partitions that have lost their state: Redis is empty, or another server has taken over,
// which may have older state, or the database has. It does nothing while another process rebuilds. A partition whose
// Redis is away does not hold up the others.
func (r *Relay) RebuildLost(ctx context.Context) (Rebuilt, error) {
	rebuilt, _, err := r.rebuildLost(ctx)
	return rebuilt, err
}

// rebuildLost is RebuildLost. It also returns the partitions that have their state by now.
func (r *Relay) rebuildLost(ctx context.Context) (_ Rebuilt, well []int, err error) {
	defer func() {
		if err == nil {
			r.hasLooked()
		}
	}()
	identity, err := r.store.agendas.Identity(ctx)
	if err != nil {
		return Rebuilt{}, nil, err
	}
	seen, lost, away := r.lost(ctx, identity, true)
	if seen == nil {
		return Rebuilt{}, nil, away
	}
	for partition := range seen.builds {
		if !slices.Contains(lost, partition) {
			well = append(well, partition)
		}
	}
	if len(lost) == 0 {
		return Rebuilt{}, well, away
	}
	rebuilt, err := r.rebuildAlone(ctx, identity, func() (*look, []int, error) {
		seen, lost, err := r.lost(ctx, identity, false)
		if len(lost) > 0 {
			err = nil // away says the same
		}
		return seen, lost, err
	})
	return rebuilt, append(well, rebuilt.Partitions...), errors.Join(err, away)
}

// lost lists the partitions that are not in the epoch that the database knows, or were built on another server or from
// another history of the database. The error also says which partitions can't be reached. marks is as in [Relay.look].
func (r *Relay) lost(ctx context.Context, identity string, marks bool) (*look, []int, error) {
	builds, away := r.store.agendas.Builds(ctx)
	seen, err := r.look(ctx, builds, marks)
	if err != nil {
		return nil, nil, errors.Join(err, away)
	}
	var lost []int
	for _, partition := range slices.Sorted(maps.Keys(builds)) {
		if seen.lost(partition, identity) {
			lost = append(lost, partition)
		}
	}
	return seen, lost, away
}

// Rebuild rebuilds every partition that can be reached, and returns an error that names the others. While another
// process rebuilds, it waits for that to end: what made the operator ask may be newer than what the other process saw.
func (r *Relay) Rebuild(ctx context.Context) (Rebuilt, error) {
	for told := false; ; told = true {
		done, err := r.rebuildAll(ctx)
		if err != nil || len(done.Partitions) > 0 {
			return done, err
		}
		if !told {
			r.log.InfoContext(ctx, "another process is rebuilding; waiting for it to finish")
		}
		select {
		case <-ctx.Done():
			return Rebuilt{}, fmt.Errorf("wait for another process to finish its rebuild: %w", ctx.Err())
		case <-time.After(rebuildPoll):
		}
	}
}

// rebuildAll rebuilds every partition that can be reached, or none while another process rebuilds.
func (r *Relay) rebuildAll(ctx context.Context) (Rebuilt, error) {
	identity, err := r.store.agendas.Identity(ctx)
	if err != nil {
		return Rebuilt{}, err
	}
	var away error
	rebuilt, err := r.rebuildAlone(ctx, identity, func() (*look, []int, error) {
		var builds map[int]agenda.Built
		builds, away = r.store.agendas.Builds(ctx)
		seen, err := r.look(ctx, builds, false)
		return seen, slices.Sorted(maps.Keys(builds)), err
	})
	return rebuilt, errors.Join(err, away)
}

// TryLockSQL takes an advisory lock until its transaction ends, and lets the transaction idle for as long as it likes:
// the keepalives of [SessionParams] end it when its host vanishes.
const TryLockSQL = `
SELECT pg_try_advisory_xact_lock($1) FROM set_config('idle_in_transaction_session_timeout', '0', true)`

// rebuildAlone rebuilds the partitions that which gives, unless another process of the deployment rebuilds. The lock
// for that belongs to a transaction, because a pooler gives a session to others.
func (r *Relay) rebuildAlone(ctx context.Context, identity string, which func() (*look, []int, error),
) (Rebuilt, error) {
	tx, err := r.store.db.Begin(ctx, pgx.TxOptions{})
	if err != nil {
		return Rebuilt{}, describe("connect for a rebuild", err)
	}
	defer func() { _ = tx.Rollback(ctx) }() // it wrote nothing, and the lock ends with the connection in any case
	var mine bool
	if err := tx.QueryRow(ctx, TryLockSQL, int64(rebuildLock)).Scan(&mine); err != nil {
		return Rebuilt{}, describe("take the lock of rebuilds", err)
	} else if !mine {
		return Rebuilt{}, nil
	}
	seen, partitions, err := which()
	if err != nil || len(partitions) == 0 {
		return Rebuilt{}, err
	}
	start := time.Now()
	r.log.InfoContext(ctx, "rebuilding partitions that have lost their state", "partitions", len(partitions))
	work := &rebuild{
		Relay: r, seen: seen, identity: identity, token: rand.Text(), partitions: partitions,
		kept: map[int]agenda.Kept{}, epochs: map[int]int64{},
	}
	if err := work.run(ctx); err != nil {
		return Rebuilt{}, fmt.Errorf("rebuild %s: %w", plural.Of(len(partitions), "partition", "partitions"), err)
	}
	done := Rebuilt{
		Partitions: partitions, Waiting: work.waiting, InFlight: work.inFlight, Windows: int(work.windows.Load()),
		Took: time.Since(start),
	}
	r.log.InfoContext(ctx, "rebuilt partitions", "partitions", len(partitions),
		"waiting", done.Waiting, "in_flight", done.InFlight, "windows", done.Windows,
		"took", done.Took.Round(time.Millisecond).String())
	return done, nil
}

// rebuild is a rebuild under way.
type rebuild struct {
	*Relay
	seen              *look
	identity, token   string
	partitions        []int
	kept              map[int]agenda.Kept // what Redis keeps of each
	waiting, inFlight int
	windows           atomic.Int64
	latest            int64         // the highest number of an epoch that Redis has had
	epochs            map[int]int64 // the new ones, by partition
	mark              string        // what the partitions will remember of Postgres
}

func (r *rebuild) run(ctx context.Context) error {
	agendas := r.store.agendas
	r.cfg.Rebuilding(ctx)
	whole, err := agendas.Stop(ctx, r.partitions, r.token, r.identity)
	if err != nil {
		return err
	}
	for _, partition := range r.partitions {
		kept := r.seen.kept(partition)
		kept.Windows = kept.Windows && slices.Contains(whole, partition)
		r.kept[partition] = kept
	}
	if err := r.noteLast(ctx); err != nil {
		return err
	}
	if err := agendas.Empty(ctx, r.kept, r.token); err != nil {
		return err
	}
	if err := r.voidClaims(ctx); err != nil {
		return err
	}
	if err := r.restore(ctx); err != nil {
		return err
	}
	if err := r.restorePauses(ctx); err != nil {
		return err
	}
	for _, partition := range r.partitions {
		built := agenda.Built{Epoch: agenda.NewEpoch(r.epochs[partition], r.identity), Mark: r.mark}
		if err := agendas.EndRebuild(ctx, r.token, partition, built); err != nil {
			return err
		}
	}
	r.cfg.Rebuilding(ctx)
	return nil
}

// noteLast notes the counts of the partitions before their state is removed. The partitions are stopped, so nothing is
// counted after it has read the counts. Counts of an unknown epoch belong to the latest that the database knows.
func (r *rebuild) noteLast(ctx context.Context) error {
	counts, away := r.store.agendas.Counts(ctx)
	if len(counts) == 0 {
		return away
	}
	counts = slices.DeleteFunc(counts, func(c agenda.PartitionCounts) bool { return !r.rebuilds(c.Partition) })
	for i := range counts {
		counts[i].Epoch = cmp.Or(counts[i].Epoch, r.seen.epochs[counts[i].Partition])
		r.latest = max(r.latest, counts[i].Epoch)
	}
	return r.note(ctx, counts)
}

// voidClaims waits for the claims under way, and makes the grants of earlier epochs void, also of those that an older
// state of the database does not know. Whatever is read afterwards includes every notification that was sent or may
// still be sent.
func (r *rebuild) voidClaims(ctx context.Context) error {
	now, err := r.store.agendas.Now(ctx)
	if err != nil {
		return err
	}
	err = r.store.db.InTx(ctx, pgx.TxOptions{}, func(tx *limited.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(claimLock)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, surplusSQL, r.store.agendas.Partitions()); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, markSQL).Scan(&r.mark); err != nil {
			return err
		}
		rows, err := tx.Query(ctx,
			`INSERT INTO pacer.partitions AS l (partition, epoch, rebuilt_at) SELECT unnest($1::int[]), 1, $2
			ON CONFLICT (partition) DO UPDATE SET epoch = greatest(l.epoch, $3) + 1, rebuilt_at = excluded.rebuilt_at
			RETURNING partition, epoch`,
			r.partitions, now.UnixMicro(), r.latest)
		if err != nil {
			return err
		}
		var partition int
		var epoch int64
		_, err = pgx.ForEachRow(rows, []any{&partition, &epoch}, func() error {
			r.epochs[partition] = epoch
			return nil
		})
		return err
	})
	if err != nil {
		return describe("make earlier grants void", err)
	}
	return nil
}

// idleSQL lets a transaction idle for as long as it likes, see [TryLockSQL].
const idleSQL = "SELECT set_config('idle_in_transaction_session_timeout', '0', true)"

// restore restores what the database holds, all as it is at one moment: the admission of a delivery is counted if and
// only if the delivery has been made or is restored as in flight. Whoever settles such a delivery after that moment
// waits until the rebuild has ended, and then finds it in Redis.
func (r *rebuild) restore(ctx context.Context) error {
	moment := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return r.store.db.InTx(ctx, moment, func(tx *limited.Tx) error {
		if _, err := tx.Exec(ctx, idleSQL); err != nil {
			return describe("begin to read what Redis has lost", err)
		}
		inFlight, err := r.restoreEntries(ctx, tx)
		if err != nil {
			return err
		}
		return r.restoreWindows(ctx, tx, inFlight)
	})
}

func (r *rebuild) rebuilds(partition int) bool { return slices.Contains(r.partitions, partition) }
