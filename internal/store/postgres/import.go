package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/transfer"
)

// importLock is the advisory lock of the process that imports: "import" in ASCII.
const importLock = 0x696d706f7274

// ErrImporting says that another process imports at the moment.
var ErrImporting = errors.New("another process is importing")

// beginImportSQL takes the lock. The two settings tell the triggers that the rebuild will put the notifications into
// their backlogs, so that none is noted in the outbox, and that they were counted when they were accepted.
const beginImportSQL = `
SELECT pg_try_advisory_xact_lock($1),
	set_config('pacer.outbox', 'none', true) || set_config('pacer.counted', 'yes', true) = ''`

// Import takes over everything that a store on Redis kept, in one transaction: all of it or nothing. To import the same
// data again adds nothing. The partitions must be rebuilt afterwards; the first start does that. The policy names the
// categories.
func (s *Store) Import(ctx context.Context, source transfer.Source, categories []string,
) (count transfer.Count, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var mine bool
		if err := tx.QueryRow(ctx, beginImportSQL, int64(importLock)).Scan(&mine, new(bool)); err != nil {
			return err
		}
		if !mine {
			return ErrImporting
		}
		return source.Export(ctx, func(b *transfer.Batch) error {
			count.Add(b)
			s.nameCategories(b.Admissions, categories)
			return s.importBatch(ctx, tx, b)
		})
	})
	if err != nil {
		return transfer.Count{}, describe("import what Redis keeps", err)
	}
	return count, nil
}

func (s *Store) importBatch(ctx context.Context, tx pgx.Tx, b *transfer.Batch) error {
	for _, step := range []func(context.Context, pgx.Tx, *transfer.Batch) error{
		s.importNotifications, importAdmissions, importDevices, importPreferences,
	} {
		if err := step(ctx, tx, b); err != nil {
			return err
		}
	}
	return nil
}

// importNotificationsSQL inserts notifications whose ids are new, with everything that happened to them.
const (
	importNotificationsSQL = `
INSERT INTO pacer.notifications (` + givenColumns + "," + importedColumns + `)
SELECT ` + givenColumns + "," + importedColumns + `
FROM unnest(` + givenArrays + `,
	$17::timestamptz[], $18::text[], $19::text[], $20::int[], $21::int[], $22::int[], $23::int[], $24::int[],
	$25::text[], $26::bigint[], $27::timestamptz[], $28::bigint[], $29::text[], $30::bigint[])
	AS a(` + givenColumns + "," + importedColumns + `)
ON CONFLICT (id) DO NOTHING`
	// heldKeysSQL returns those of some idempotency keys that have notifications.
	heldKeysSQL = "SELECT idempotency_key FROM pacer.notifications WHERE idempotency_key = ANY ($1)"
	// importedColumns are what has happened to a notification.
	importedColumns = `
	accepted_at, status, reason, generation, attempts, failures, crashes, deferrals, history, not_before, ended_at,
	admitted_at, detail, arrival`
	// skipArrivalsSQL has what is accepted from now on arrive behind $1.
	skipArrivalsSQL = "SELECT setval('pacer.arrivals', greatest(nextval('pacer.arrivals'), $1::bigint / 100 * 100 + 100))"
)

func (s *Store) importNotifications(ctx context.Context, tx pgx.Tx, b *transfer.Batch) error {
	n := len(b.Notifications)
	if n == 0 {
		return nil
	}
	batch := notificationsOf(b.Notifications)
	if err := importKeys(ctx, tx, batch); err != nil {
		return err
	}
	accepted, notBefore, ended := make([]time.Time, n), make([]*int64, n), make([]*time.Time, n)
	arrivals := make([]int64, n)
	status, reason, history := make([]string, n), make([]string, n), make([]string, n)
	detail := make([]string, n)
	generation, attempts, failures := make([]int32, n), make([]int32, n), make([]int32, n)
	crashes, deferrals, admitted := make([]int32, n), make([]int32, n), make([]int64, n)
	for i, x := range b.Notifications {
		accepted[i], arrivals[i], ended[i] = x.CreatedAt, x.Arrival, timestamp(x.EndedAt)
		if !x.NotBefore.IsZero() {
			notBefore[i] = new(x.NotBefore.UnixMicro())
		}
		status[i], admitted[i] = x.Status, x.AdmittedAt
		reason[i], history[i], detail[i] = storable(x.Reason), storable(x.History), storable(x.Detail)
		generation[i], attempts[i], failures[i] = int32(x.Generation), int32(x.Attempts), int32(x.Failures)
		crashes[i], deferrals[i] = int32(x.Crashes), int32(x.Deferrals)
	}
	args := append(givenArgs(batch), accepted, status, reason, generation, attempts, failures, crashes, deferrals,
		history, notBefore, ended, admitted, detail, arrivals)
	inserted, err := tx.Exec(ctx, importNotificationsSQL, args...)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, skipArrivalsSQL, slices.Max(arrivals)); err != nil {
		return err
	}
	if inserted.RowsAffected() < int64(n) {
		if err := s.checkRepeats(ctx, tx, batch); err != nil {
			return err
		}
	}
	return importAdmissions(ctx, tx, &transfer.Batch{Admissions: s.lastAdmissions(b.Notifications)})
}

// importKeys leaves an idempotency key to one of the notifications that have it: a claim on Redis may end too early.
func importKeys(ctx context.Context, tx pgx.Tx, batch []*notification.Notification) error {
	var keys []string
	for _, n := range batch {
		if n.IdempotencyKey != "" {
			keys = append(keys, n.IdempotencyKey)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, heldKeysSQL, keys)
	if err != nil {
		return err
	}
	taken, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	held := map[string]bool{"": true}
	for _, key := range taken {
		held[key] = true
	}
	for _, n := range batch {
		if held[n.IdempotencyKey] {
			n.IdempotencyKey, n.Fingerprint = "", ""
		}
		held[n.IdempotencyKey] = true
	}
	return nil
}

// otherUsersSQL finds a notification of $1 and $2 whose id is another user's.
const otherUsersSQL = `
SELECT a.id, n.user_id, a.user_id FROM unnest($1::text[], $2::text[]) AS a(id, user_id)
JOIN pacer.notifications n ON n.id = a.id WHERE n.user_id <> a.user_id LIMIT 1`

// checkRepeats refuses a batch when an id that was there already is another user's: then this is no repeat, and the
// notification would be lost.
func (s *Store) checkRepeats(ctx context.Context, tx pgx.Tx, batch []*notification.Notification) error {
	ids, users := make([]string, len(batch)), make([]string, len(batch))
	for i, n := range batch {
		ids[i], users[i] = n.ID, n.UserID
	}
	var id, first, second string
	switch err := tx.QueryRow(ctx, otherUsersSQL, ids, users).Scan(&id, &first, &second); {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("users %q and %q both have a notification with the id %q, and Postgres keeps one of an id; "+
		"to import all but that of %q, which is then not sent, remove it first: redis-cli DEL %s",
		first, second, id, second, agenda.PartitionPrefix(s.agendas.PartitionOf(second))+"n:"+id)
}

// lastAdmissions returns the last admission of each notification whose category is throttled by counters, because
// counters hold no moments. The admissions of the other categories are in their logs.
func (s *Store) lastAdmissions(notifications []transfer.Notification) []transfer.Admission {
	var admissions []transfer.Admission
	for _, n := range notifications {
		if n.AdmittedAt > 0 && !s.agendas.PlanOf(n.UserID, n.Category).Algorithm.KeepsLog() {
			admissions = append(admissions, transfer.Admission{
				UserID: n.UserID, Category: n.Category, ID: n.ID, Generation: n.Generation, At: n.AdmittedAt,
			})
		}
	}
	return admissions
}

// importDevices inserts devices, and what became of notifications on them.
func importDevices(ctx context.Context, tx pgx.Tx, b *transfer.Batch) error {
	batch := &pgx.Batch{}
	for _, d := range b.Devices {
		batch.Queue(`INSERT INTO pacer.devices (`+deviceColumns+
			`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING`,
			d.UserID, d.ID, string(d.Channel), d.Target, d.Active, storable(d.Reason), d.CreatedAt, d.UpdatedAt,
			timestamp(d.DeactivatedAt))
	}
	for _, d := range b.Deliveries {
		batch.Queue(`INSERT INTO pacer.deliveries (notification_id, device_id, attempts, ended, outcome, updated_at, reply)
			VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`,
			d.NotificationID, d.DeviceID, d.Attempts, d.Ended, storable(d.Outcome), d.At,
			storable(d.Reply))
	}
	return tx.SendBatch(ctx, batch).Close()
}

// importPreferences writes what users want.
func importPreferences(ctx context.Context, tx pgx.Tx, b *transfer.Batch) error {
	if len(b.Preferences) == 0 {
		return nil
	}
	rows := make([]wantedRow, len(b.Preferences))
	for i := range b.Preferences {
		rows[i] = wantedRowOf(b.Preferences[i].UserID, &b.Preferences[i].Preferences)
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, setPreferencesSQL, text, notification.AnyVersion)
	return err
}

// HasEpochs reports whether any partition was ever built from the database.
func (s *Store) HasEpochs(ctx context.Context) (bool, error) {
	var has bool
	if err := s.db.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pacer.partitions)").Scan(&has); err != nil {
		return false, describe("read the epochs", err)
	}
	return has, nil
}

// notificationsOf returns the notifications without what happened to them.
func notificationsOf(all []transfer.Notification) []*notification.Notification {
	plain := make([]*notification.Notification, len(all))
	for i := range all {
		plain[i] = &all[i].Notification
	}
	return plain
}
