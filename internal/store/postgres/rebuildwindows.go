package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

const (
	// restorers is how many backlogs have their windows restored at once.
	restorers = 16
	// windowPart is how many admissions one script restores at most. Each takes 10 to 20 µs of a processor, under four
	// limits and three caps 60 µs, and no script may take 10 ms.
	windowPart = 100
)

// windowsSQL returns the admissions that the windows of any backlog may still hold, oldest first. Those of deliveries
// in flight have their id and the token of their claim.
const windowsSQL = `
SELECT user_id, category, admitted_at, channel, id, token FROM (
	SELECT a.user_id, a.category, a.admitted_at, coalesce(n.channel, '') AS channel, '' AS id, '' AS token
	FROM pacer.attempts a LEFT JOIN pacer.notifications n ON n.id = a.notification_id
	WHERE a.admitted_at > $1 AND a.counted
	UNION ALL
	SELECT user_id, category, admitted_at, channel, id, token FROM pacer.notifications
	WHERE ended_at IS NULL AND status = 'sending' AND admitted_at > $1
) admitted ORDER BY user_id, category, admitted_at`

// windowsOfSQL returns the same of some users, each since a moment of its own.
const windowsOfSQL = `
SELECT w.user_id, category, admitted_at, channel, id, token
FROM unnest($1::text[], $2::bigint[]) AS w(user_id, since), LATERAL (
	SELECT a.category, a.admitted_at, coalesce((SELECT n.channel FROM pacer.notifications n
		WHERE n.id = ANY (ARRAY[a.notification_id])), '') AS channel, '' AS id, '' AS token
	FROM pacer.attempts a
	WHERE (a.user_id, a.admitted_at) > (w.user_id, w.since)
		AND (a.user_id, a.admitted_at) <= (w.user_id, 9223372036854775807) AND a.counted
	UNION ALL
	SELECT category, admitted_at, channel, id, token FROM pacer.notifications n
	WHERE (n.user_id, n.accepted_at) >= (w.user_id, '-infinity') AND (n.user_id, n.accepted_at) <= (w.user_id, 'infinity')
		AND status = 'sending' AND admitted_at > w.since
) admitted ORDER BY w.user_id, category, admitted_at`

const (
	// ownLimitsSQL returns the users with limits of their own, in order.
	ownLimitsSQL = "SELECT user_id FROM pacer.preferences WHERE limits <> '{}' ORDER BY user_id"
	// windowsUsers is for how many of them admissions are read at a time.
	windowsUsers = 1000
)

// windowsTimeout is how long windowsSQL may take: Postgres sorts all admissions before it returns the first.
const windowsTimeout = 5 * time.Minute

// counted is an admission that a window may still hold. One of a delivery in flight has the notification's id and the
// token of its claim.
type counted struct {
	user, category, channel, id, claim string
	at                                 int64
}

// eachCounted calls do with the admissions that windows may still hold, backlog by backlog, and oldest first. Those of
// users whose own limits look back further than others' are read apart: nobody else's are read for their sake.
func (r *Relay) eachCounted(ctx context.Context, db querier, now time.Time, do func(counted) error) error {
	others := r.cfg.Windows("")
	rows, err := db.Query(ctx, ownLimitsSQL)
	if err != nil {
		return describe("read who has limits of their own", err)
	}
	apart, user := []string(nil), ""
	if _, err := pgx.ForEachRow(rows, []any{&user}, func() error {
		if r.cfg.Windows(user) > others {
			apart = append(apart, user)
		}
		return nil
	}); err != nil {
		return describe("read who has limits of their own", err)
	}
	for users := range slices.Chunk(apart, windowsUsers) {
		rows, err := db.Query(ctx, windowsOfSQL, users, sinceOf(users, now, r.cfg.Windows))
		if err != nil {
			return describe("read the admissions of some users", err)
		}
		if err := scanCounted(rows, do); err != nil {
			return err
		}
	}
	rows, err = db.Query(ctx, windowsSQL, now.Add(-others).UnixMicro())
	if err != nil {
		return describe("read the admissions", err)
	}
	return scanCounted(rows, func(a counted) error {
		if _, done := slices.BinarySearch(apart, a.user); done {
			return nil
		}
		return do(a)
	})
}

// scanCounted reads rows of windowsSQL.
func scanCounted(rows pgx.Rows, do func(counted) error) error {
	var a counted
	_, err := pgx.ForEachRow(rows, []any{&a.user, &a.category, &a.at, &a.channel, &a.id, &a.claim},
		func() error { return do(a) })
	if err != nil {
		return describe("read the admissions", err)
	}
	return nil
}

// sinceOf gives for each user how far back from a moment the user's windows look.
func sinceOf(users []string, from time.Time, window func(userID string) time.Duration) []int64 {
	since := make([]int64, len(users))
	for i, user := range users {
		since[i] = from.Add(-window(user)).UnixMicro()
	}
	return since
}

// restoreWindows counts the admissions of each backlog again, except in the logs that were cleared since.
func (r *rebuild) restoreWindows(ctx context.Context, tx querier) error {
	now, err := r.store.agendas.Now(ctx)
	if err != nil {
		return err
	}
	w := &windowRestore{rebuild: r}
	if w.cleared, err = allCleared(ctx, tx); err != nil {
		return err
	}
	w.group.SetLimit(restorers)
	err = r.eachCounted(ctx, tx, now, func(a counted) error {
		if a.user != w.backlog.UserID || a.category != w.backlog.Category {
			w.end(ctx)
			w.begin(dispatch.BacklogOf(a.user, a.category, r.store.agendas.Partitions()))
		}
		admission := agenda.Admission{At: throttle.Micros(a.at), Channel: notification.Channel(a.channel)}
		if g, ok := readToken(a.claim); ok {
			admission.InFlight = agenda.GrantName(a.id, g.Generation)
		}
		w.add(ctx, admission)
		return nil
	})
	w.end(ctx)
	restored := w.group.Wait()
	if err != nil {
		return err
	}
	return restored
}

// windowRestore hands the admissions of one backlog after the other over, in parts, while they are read. Each backlog
// has a goroutine of its own, which restores its parts in order.
type windowRestore struct {
	*rebuild
	group   errgroup.Group
	cleared map[string]cleared // by user
	backlog dispatch.Backlog
	plan    throttle.Plan            // the backlog's, if logs of its user were cleared
	part    agenda.WindowPart        // what has been read since the last part that was handed over
	parts   chan<- agenda.WindowPart // to the backlog's goroutine; nil before its first part
}

// begin begins with another backlog.
func (w *windowRestore) begin(b dispatch.Backlog) {
	w.backlog, w.plan = b, throttle.Plan{}
	if w.cleared[b.UserID] != nil {
		w.plan = w.store.agendas.PlanOf(b.UserID, b.Category)
	}
}

// add takes the next admission of the backlog. One that was cleared from the category's log was cleared from all of its
// logs. One that was cleared from logs of caps only, with another category, counts in the others.
func (w *windowRestore) add(ctx context.Context, a agenda.Admission) {
	cleared := w.cleared[w.backlog.UserID]
	if cleared.has(categoryLog(w.backlog.Category), a.At) {
		return
	}
	caps := cleared.caps(w.plan, a.At)
	if n := len(w.part.Admitted); n == windowPart || n > 0 && !slices.Equal(caps, w.part.Cleared) {
		w.part.More = true
		w.hand(ctx)
		w.part = agenda.WindowPart{Before: w.part.Before + n}
	}
	w.part.Cleared, w.part.Admitted = caps, append(w.part.Admitted, a)
}

// hand hands the part over. It waits while so many backlogs are being restored, or the one before this part.
func (w *windowRestore) hand(ctx context.Context) {
	if !w.rebuilds(w.backlog.Partition) || w.kept[w.backlog.Partition].Windows {
		return
	}
	if w.parts == nil {
		of, parts := w.backlog, make(chan agenda.WindowPart, 1)
		w.parts = parts
		w.windows++
		w.group.Go(func() error { return w.restoreWindow(ctx, of, parts) })
	}
	w.parts <- w.part
}

// end hands over what is left of the backlog. It leaves no goroutine waiting for more.
func (w *windowRestore) end(ctx context.Context) {
	if len(w.part.Admitted) > 0 {
		w.hand(ctx)
	}
	if w.parts != nil {
		close(w.parts)
	}
	w.part, w.parts = agenda.WindowPart{}, nil
}

// restoreWindow restores the parts of a backlog. After a fault it takes the rest, so that the reader does not wait.
func (r *rebuild) restoreWindow(ctx context.Context, of dispatch.Backlog, parts <-chan agenda.WindowPart) error {
	var fault error
	for part := range parts {
		if fault == nil {
			fault = r.store.agendas.RestoreWindow(ctx, r.token, of, part)
		}
	}
	return fault
}
