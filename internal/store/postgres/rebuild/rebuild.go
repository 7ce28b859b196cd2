// Package rebuild builds the state in Redis again from Postgres, and verifies that the two agree.
package rebuild

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

	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/agenda/maintenance"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/plural"
	"github.com/pacer-notify/pacer/internal/store/postgres/connect"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/store/postgres/seam"
	"github.com/pacer-notify/pacer/internal/store/postgres/totals"
)

// rebuildPoll is how often [Rebuilder.All] looks whether the rebuild of another process has ended.
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

// Rebuilder rebuilds partitions, and verifies them.
type Rebuilder struct {
	stores *seam.Stores
	totals *totals.Keeper
	// windows gives the longest window of any rule for a user; rebuilding is called as a rebuild begins and ends.
	windows    func(userID string) time.Duration
	rebuilding func(ctx context.Context)
}

// New makes a Rebuilder. It has totals note what partitions counted before it empties them.
func New(stores *seam.Stores, totals *totals.Keeper, windows func(userID string) time.Duration,
	rebuilding func(ctx context.Context),
) *Rebuilder {
	return &Rebuilder{stores: stores, totals: totals, windows: windows, rebuilding: rebuilding}
}

// Lost rebuilds the partitions that have lost their state: Redis is empty, or another server has taken over, which may
// have older state, or the database has. It does nothing while another process rebuilds. A partition whose Redis is
// away does not hold up the others. It also returns the partitions that have their state by now.
func (r *Rebuilder) Lost(ctx context.Context) (_ Rebuilt, well []int, err error) {
	identity, err := r.stores.Agendas.Identity(ctx)
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
	rebuilt, err := r.alone(ctx, identity, func() (*Look, []int, error) {
		seen, lost, err := r.lost(ctx, identity, false)
		if len(lost) > 0 {
			err = nil // away says the same
		}
		return seen, lost, err
	})
	return rebuilt, append(well, rebuilt.Partitions...), errors.Join(err, away)
}

// lost lists the partitions that are not in the epoch that the database knows, or were built on another server or from
// another history of the database. The error also says which partitions can't be reached. marks is as in
// [Rebuilder.look].
func (r *Rebuilder) lost(ctx context.Context, identity string, marks bool) (*Look, []int, error) {
	builds, away := r.stores.Agendas.Builds(ctx)
	seen, err := r.look(ctx, builds, marks)
	if err != nil {
		return nil, nil, errors.Join(err, away)
	}
	var lost []int
	for _, partition := range slices.Sorted(maps.Keys(builds)) {
		if seen.Lost(partition, identity) {
			lost = append(lost, partition)
		}
	}
	return seen, lost, away
}

// All rebuilds every partition that can be reached, and returns an error that names the others. While another
// process rebuilds, it waits for that to end: what made the operator ask may be newer than what the other process saw.
func (r *Rebuilder) All(ctx context.Context) (Rebuilt, error) {
	for told := false; ; told = true {
		done, err := r.allAlone(ctx)
		if err != nil || len(done.Partitions) > 0 {
			return done, err
		}
		if !told {
			r.stores.Log.InfoContext(ctx, "another process is rebuilding; waiting for it to finish")
		}
		select {
		case <-ctx.Done():
			return Rebuilt{}, fmt.Errorf("wait for another process to finish its rebuild: %w", ctx.Err())
		case <-time.After(rebuildPoll):
		}
	}
}

// allAlone rebuilds every partition that can be reached, or none while another process rebuilds.
func (r *Rebuilder) allAlone(ctx context.Context) (Rebuilt, error) {
	identity, err := r.stores.Agendas.Identity(ctx)
	if err != nil {
		return Rebuilt{}, err
	}
	var away error
	rebuilt, err := r.alone(ctx, identity, func() (*Look, []int, error) {
		var builds map[int]maintenance.Built
		builds, away = r.stores.Agendas.Builds(ctx)
		seen, err := r.look(ctx, builds, false)
		return seen, slices.Sorted(maps.Keys(builds)), err
	})
	return rebuilt, errors.Join(err, away)
}

// alone rebuilds the partitions that which gives, unless another process of the deployment rebuilds. The lock
// for that belongs to a transaction, because a pooler gives a session to others.
func (r *Rebuilder) alone(ctx context.Context, identity string, which func() (*Look, []int, error),
) (Rebuilt, error) {
	tx, err := r.stores.DB.Begin(ctx, pgx.TxOptions{})
	if err != nil {
		return Rebuilt{}, limited.Describe("connect for a rebuild", err)
	}
	defer func() { _ = tx.Rollback(ctx) }() // it wrote nothing, and the lock ends with the connection in any case
	var mine bool
	if err := tx.QueryRow(ctx, connect.TryLockSQL, int64(seam.RebuildLock)).Scan(&mine); err != nil {
		return Rebuilt{}, limited.Describe("take the lock of rebuilds", err)
	} else if !mine {
		return Rebuilt{}, nil
	}
	seen, partitions, err := which()
	if err != nil || len(partitions) == 0 {
		return Rebuilt{}, err
	}
	start := time.Now()
	r.stores.Log.InfoContext(ctx, "rebuilding partitions that have lost their state", "partitions", len(partitions))
	work := &run{
		by: r, seen: seen, identity: identity, token: rand.Text(), partitions: partitions,
		kept: map[int]maintenance.Kept{}, epochs: map[int]int64{},
	}
	if err := work.do(ctx); err != nil {
		return Rebuilt{}, fmt.Errorf("rebuild %s: %w", plural.Of(len(partitions), "partition", "partitions"), err)
	}
	done := Rebuilt{
		Partitions: partitions, Waiting: work.waiting, InFlight: work.inFlight, Windows: int(work.windows.Load()),
		Took: time.Since(start),
	}
	r.stores.Log.InfoContext(ctx, "rebuilt partitions", "partitions", len(partitions),
		"waiting", done.Waiting, "in_flight", done.InFlight, "windows", done.Windows,
		"took", done.Took.Round(time.Millisecond).String())
	return done, nil
}

// run is a rebuild under way.
type run struct {
	by                *Rebuilder
	seen              *Look
	identity, token   string
	partitions        []int
	kept              map[int]maintenance.Kept // what Redis keeps of each
	waiting, inFlight int
	windows           atomic.Int64
	latest            int64         // the highest number of an epoch that Redis has had
	epochs            map[int]int64 // the new ones, by partition
	mark              string        // what the partitions will remember of Postgres
}

func (r *run) do(ctx context.Context) error {
	agendas := r.by.stores.Agendas
	r.by.rebuilding(ctx)
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
		built := maintenance.Built{Epoch: keyspace.NewEpoch(r.epochs[partition], r.identity), Mark: r.mark}
		if err := agendas.EndRebuild(ctx, r.token, partition, built); err != nil {
			return err
		}
	}
	r.by.rebuilding(ctx)
	return nil
}

// noteLast notes the counts of the partitions before their state is removed. The partitions are stopped, so nothing is
// counted after it has read the counts. Counts of an unknown epoch belong to the latest that the database knows.
func (r *run) noteLast(ctx context.Context) error {
	counts, away := outlook.Of(r.by.stores.Agendas.Agendas).Counts(ctx)
	if len(counts) == 0 {
		return away
	}
	counts = slices.DeleteFunc(counts, func(c outlook.PartitionCounts) bool { return !r.rebuilds(c.Partition) })
	for i := range counts {
		counts[i].Epoch = cmp.Or(counts[i].Epoch, r.seen.epochs[counts[i].Partition])
		r.latest = max(r.latest, counts[i].Epoch)
	}
	return r.by.totals.Note(ctx, counts)
}

// voidClaims waits for the claims under way, and makes the grants of earlier epochs void, also of those that an older
// state of the database does not know. Whatever is read afterwards includes every notification that was sent or may
// still be sent.
func (r *run) voidClaims(ctx context.Context) error {
	now, err := r.by.stores.Agendas.Now(ctx)
	if err != nil {
		return err
	}
	err = r.by.stores.DB.InTx(ctx, pgx.TxOptions{}, func(tx *limited.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(seam.ClaimLock)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, surplusSQL, r.by.stores.Agendas.Partitions()); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, MarkSQL).Scan(&r.mark); err != nil {
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
		return limited.Describe("make earlier grants void", err)
	}
	return nil
}

// idleSQL lets a transaction idle for as long as it likes, see [connect.TryLockSQL].
const idleSQL = "SELECT set_config('idle_in_transaction_session_timeout', '0', true)"

// restore restores what the database holds, all as it is at one moment: the admission of a delivery is counted if and
// only if the delivery has been made or is restored as in flight. Whoever settles such a delivery after that moment
// waits until the rebuild has ended, and then finds it in Redis.
func (r *run) restore(ctx context.Context) error {
	moment := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return r.by.stores.DB.InTx(ctx, moment, func(tx *limited.Tx) error {
		if _, err := tx.Exec(ctx, idleSQL); err != nil {
			return limited.Describe("begin to read what Redis has lost", err)
		}
		inFlight, err := r.restoreEntries(ctx, tx)
		if err != nil {
			return err
		}
		return r.restoreWindows(ctx, tx, inFlight)
	})
}

func (r *run) rebuilds(partition int) bool { return slices.Contains(r.partitions, partition) }
